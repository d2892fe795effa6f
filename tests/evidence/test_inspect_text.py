"""How a container ended, as docker, podman, nerdctl and crictl print it, whole, cut, or by a template."""

import pytest

from bot.evidence import node_readings
from tests.diagnosis.bundles import diagnose

KILLED = {"docker.oom_killed": True, "docker.exit_code": 137}
FORMS = {
    "labels in the template": "$ docker inspect chat --format 'oom={{.State.OOMKilled}} exit={{.State.ExitCode}} error={{.State.Error}}'\noom=true exit=137 error=\n",
    "bare words": '$ docker inspect -f "{{.State.OOMKilled}} {{.State.ExitCode}}" chat\ntrue 137\n',
    "the other way round": "# podman inspect --format='{{.State.ExitCode}}\\t{{.Name}}\\t{{.State.OOMKilled}}' chat\n137\tchat\ttrue\n",
    "unquoted template": "$ nerdctl inspect --format={{.State.OOMKilled}}/{{.State.ExitCode}} chat\ntrue/137\n",
    "state as JSON": "$ docker inspect chat --format '{{json .State}}'\n"
    + '{"Status":"exited","Running":false,"OOMKilled":true,"Pid":0,"ExitCode":137,"Error":""}\n',
    "JSON whole": '[\n{\n"Id": "3f21",\n"State": {\n"Status": "exited",\n"Running": false,\n"OOMKilled": true,\n"ExitCode": 137,\n"Health": {"Log": [{"ExitCode": 1}]}\n}\n}\n]\n',
    "no prompt": "OOMKilled=true ExitCode=137\n",
    "crictl": '$ crictl inspect 3f21\n{\n"status": {\n"exitCode": 137,\n"reason": "OOMKilled",\n"state": "CONTAINER_EXITED"\n}\n}\n',
    "crictl by template": "$ crictl inspect -o go-template --template '{{.status.exitCode}} {{.status.reason}}' 3f21\n137 OOMKilled\n",
    "the second of two": "$ docker inspect a b --format '{{.Name}} {{.State.OOMKilled}} {{.State.ExitCode}}'\n/a false 0\n/b true 137\n",
}


def facts(text: str) -> dict[str, object]:
    return {fact.name: fact.value for fact in node_readings.read(text.encode(), "node_readings.txt").facts if fact.name.startswith("docker.")}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_of_the_kill_and_of_the_exit_code(form: str) -> None:
    assert facts(FORMS[form]) == KILLED


def test_limit_is_read_where_it_is_asked_for() -> None:
    asked = "$ docker inspect chat --format '{{.State.OOMKilled}} {{.State.ExitCode}} {{.HostConfig.Memory}}'\n"
    assert facts(asked + "false 137 0\n") == {"docker.oom_killed": False, "docker.exit_code": 137, "docker.memory_limit_bytes": 0}


def test_limit_that_was_asked_for_alone_is_what_may_be_raised() -> None:
    ended = "$ docker inspect chat --format '{{json .State}}'\n" + '{"Status":"exited","OOMKilled":true,"ExitCode":137}\n'
    asked = "$ docker inspect chat --format '{{.HostConfig.Memory}}'\n805306368\n"
    assert facts(ended + asked) == {"docker.oom_killed": True, "docker.exit_code": 137, "docker.memory_limit_bytes": 805306368}
    advice = [[item.remedy for item in diagnose({"node_readings.txt": text}).recommendations] for text in (ended + asked, ended)]
    assert (advice[0][0], "memory_limit" in advice[1]) == ("memory_limit", False)


def test_container_that_runs_has_no_exit_code() -> None:
    assert facts('"State": {\n"Status": "running",\n"Running": true,\n"OOMKilled": false,\n"ExitCode": 0\n}\n') == {
        "docker.oom_killed": False,
        "docker.running": True,
    }


@pytest.mark.parametrize(
    "text", ["$ docker inspect -f '{{if .State.OOMKilled}}yes{{end}}' chat\nyes\n", "$ echo '{{.State.ExitCode}}'\n137\n", "true 137\n", "exit=137\n"]
)
def test_what_has_no_name_is_not_guessed(text: str) -> None:
    assert not facts(text)


@pytest.mark.parametrize(
    ("memory", "cause"),
    [("8589934592", "container_memory_limit"), ("0", "node_out_of_memory"), ("", "container_memory_limit")],
)
def test_room_on_the_machine_makes_no_kill_healthy(memory: str, cause: str) -> None:
    free = "$ free -g\n               total        used        free      shared  buff/cache   available\nMem:              31           4          22           0           4          26\n"
    asked = "$ docker inspect chat --format 'oom={{.State.OOMKilled}} exit={{.State.ExitCode}} limit={{.HostConfig.Memory}}'\n"
    assert diagnose({"node_readings.txt": f"{asked}oom=true exit=137 limit={memory}\n{free}"}).cause == cause
    assert diagnose({"node_readings.txt": free}).cause == "healthy"


def test_kill_in_a_container_that_runs_took_a_child() -> None:
    assert diagnose({"node_readings.txt": '"State": {\n"Status": "running",\n"OOMKilled": true,\n"ExitCode": 0\n}\n'}).cause == "child_killed_in_container"


SERVES = 'INFO:     Application startup complete.\nINFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    "told",
    [
        "$ docker inspect -f '{{.State.OOMKilled}} {{.State.ExitCode}}' chat\nfalse 137\n",
        "Jan 14 09:31:07 node-1 systemd[1]: chat.service: A process of this unit has been killed by the OOM killer.\n",
        "vllm.service: State 'stop-sigterm' timed out. Killing.\n",
    ],
)
def test_server_that_answered_is_not_healthy_where_the_machine_tells_of_its_end(told: str) -> None:
    assert diagnose({"container.log": SERVES}).cause == "healthy"
    assert diagnose({"container.log": SERVES, "node_readings.txt": told}).cause != "healthy"
