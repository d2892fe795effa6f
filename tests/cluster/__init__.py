"""The real Kubernetes control plane for tests; the kubelet's part is played by the sandbox's."""
