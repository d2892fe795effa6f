#!/usr/bin/env bash
# Builds the control plane for the cluster tests (kube-apiserver, kube-controller-manager, etcd) from Go modules.
# They land in $KUBEBUILDER_ASSETS, else in .cache/control-plane; nothing happens when they are there in the version of go.mod.
# Needs Go 1.26; the first build took 5 min 33 s on two busy cores with all downloads, a later one takes seconds.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
project="$(cd "$here/../.." && pwd)"
out="${KUBEBUILDER_ASSETS:-$project/.cache/control-plane}"

cd "$here/controlplane"
version="$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" { print $3 }' go.mod)"
etcd="$(awk '$1 == "require" && $2 == "go.etcd.io/etcd/server/v3" { print $3 }' go.mod)"
stamp="kubernetes $version etcd $etcd"
if [ "$(cat "$out/VERSION" 2>/dev/null || true)" = "$stamp" ] && [ -x "$out/kube-apiserver" ] && [ -x "$out/kube-controller-manager" ] && [ -x "$out/etcd" ]; then
    echo "control plane: $stamp is in $out"
    exit 0
fi
if ! command -v go >/dev/null; then
    echo "control plane: Go 1.26 or newer is needed to build it (go is not on PATH)" >&2
    exit 1
fi

minor="${version#v1.}"
at=k8s.io/component-base/version
flags="-s -w -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=${minor%%.*} -X $at.gitTreeState=clean"
mkdir -p "$out"
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath -buildvcs=false"
begin=$SECONDS
build() {
    go build -p 2 -ldflags "$flags" -o "$out/$1" "$2"
    echo "control plane: $1 after $((SECONDS - begin)) s"
}
build etcd go.etcd.io/etcd/server/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
echo "$stamp" >"$out/VERSION"
