"""What container runtimes print of a memory kill, in the journals and event streams that people paste."""

import pytest

from bot.evidence import kernel_log, node_readings

ID = "3f21ab90c4d5" + "0" * 52
LINES = {
    "docker events": f"2026-01-14T09:31:07.000000000Z container oom {ID} (image=vllm/vllm-openai:v0.11.0, name=chat)",
    "docker events as JSON": f'{{"status":"oom","id":"{ID}","from":"vllm/vllm-openai:v0.11.0","Type":"container","Action":"oom"}}',
    "podman events": f"2026-01-14 09:31:07.1 +0000 UTC container oom {ID} (image=localhost/vllm, name=chat)",
    "containerd's journal": f'Jan 14 09:31:07 node-1 containerd[711]: time="2026-01-14T09:31:07Z" level=info msg="TaskOOM event container_id:\\"{ID}\\""',
    "containerd of before": f'time="2026-01-14T09:31:07Z" level=info msg="TaskOOM event &TaskOOM{{ContainerID:{ID},XXX_unrecognized:[],}}"',
    "conmon's journal (CRI-O, podman)": f"Jan 14 09:31:07 node-1 conmon[4700]: conmon {ID} <ninfo>: OOM event received",
    "conmon's of before": f"Jan 14 09:31:07 node-1 conmon[4700]: conmon {ID} <ninfo>: OOM received",
    "ctr events": f'2026-01-14 09:31:07.1 +0000 UTC k8s.io /tasks/oom {{"container_id":"{ID}"}}',
}


@pytest.mark.parametrize("reader", [node_readings, kernel_log])
@pytest.mark.parametrize("name", LINES)
def test_kill_is_read_from_every_form_with_its_container(name: str, reader: object) -> None:
    found = {fact.name: fact for fact in reader.read(f"first line\n{LINES[name]}\n".encode(), "x.txt").facts}  # type: ignore[attr-defined]
    assert found["docker.oom_ids"].value == (ID,)
    assert found["docker.oom_ids"].place is not None
    assert found["docker.oom_ids"].place.line == 2


def test_exit_code_is_that_of_the_killed_container_and_not_of_its_neighbour() -> None:
    died = "\n".join(f"2026-01-14T09:31:08Z container die {one} (execDuration=91, exitCode={code}, name=x)" for one, code in ((ID, 137), ("a" * 64, 1)))
    facts = {fact.name: fact.value for fact in node_readings.read(f"{LINES['docker events']}\n{died}\n".encode(), "x.txt").facts}
    assert facts["docker.exit_code"] == 137


def test_other_events_tell_of_no_kill() -> None:
    text = f"2026-01-14T09:31:08Z container die {ID} (execDuration=91, exitCode=1, name=x)\n2026-01-14T09:31:09Z container start {ID} (name=oom)\n"
    assert not [fact for fact in node_readings.read(text.encode(), "x.txt").facts if fact.name.startswith("docker.")]
