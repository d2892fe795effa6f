"""Every driver's and runtime's form of a control group path."""

import pytest

from bot.evidence.cgroup import brief, parse

UID = "0a1b2c3d-1111-2222-3333-444455556666"
SLUG = UID.replace("-", "_")
ID = "c" * 64


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/pod{UID}/{ID}",
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods.slice/kubepods-pod{SLUG}.slice/cri-containerd-{ID}.scope",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLUG}.slice/crio-{ID}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLUG}.slice/crio-{ID}.scope/container",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{SLUG}.slice/cri-containerd-{ID}.scope",
        f"/lxc.payload.node1/kubepods.slice/kubepods-pod{SLUG}.slice/docker-{ID}.scope",
    ],
)
def test_container_of_a_pod_is_found_in_every_layout(path: str) -> None:
    group = parse(path)
    assert (group.level, group.pod_uid, group.container_id) == ("container", UID, ID)


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLUG}.slice", "pod"),
        ("/kubepods/pod0123456789abcdef0123456789abcdef", "pod"),
        ("/kubepods", "kubepods"),
        ("/kubepods.slice", "kubepods"),
        ("/kubelet.slice/kubelet-kubepods.slice", "kubepods"),
        ("/kubepods.slice/kubepods-burstable.slice", "qos"),
        ("/kubepods/besteffort", "qos"),
        (f"/docker/{ID}", "docker"),
        (f"/system.slice/docker-{ID}.scope", "docker"),
        ("/system.slice/vllm.service", "unit"),
        ("/user.slice/user-1000.slice/session-2.scope", "user"),
        ("/", "root"),
        ("", "root"),
        ("/slurm/uid_1000/job_12", "other"),
    ],
)
def test_level_of_a_path_tells_whose_limit_it_is(path: str, level: str) -> None:
    assert parse(path).level == level


def test_long_path_is_cut_so_that_each_part_of_the_quote_stands_in_it() -> None:
    for path in (f"/a.slice/pod{'0' * 8}-1111-2222-3333-{'4' * 12}{'.x' * 60}", "/" + "b" * 300, "/short"):
        shown = brief(path)
        assert all(part in path for part in shown.split("..."))
        assert len(shown) <= 110
