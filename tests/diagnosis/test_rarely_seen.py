"""Kinds that hardly any report shows: early releases, old kubelets, boards, programs that count the page cache as used, helpers that outlive the work."""

import pytest

from bot.model import Diagnosis
from tests.diagnosis.bundles import diagnose
from tests.diagnosis.scenes import container, event, pod, status, terminated

ENGINE = "INFO 12-15 10:41:09 llm_engine.py:73] Initializing an LLM engine {version}with config: model='/models/m', dtype=torch.float16, max_seq_len=16384, seed=0)\n"
BLOCKS = "INFO 12-15 10:41:41 llm_engine.py:223] # GPU blocks: {blocks}, # CPU blocks: 1310\nINFO:     Application startup complete.\n"


def remedies(found: Diagnosis) -> list[str]:
    return [f"{each.remedy}:{each.direction}" if each.direction else each.remedy for each in found.recommendations]


@pytest.mark.parametrize(
    ("version", "blocks", "cause"), [("", 112, "context_exceeds_kv_cache"), ("", 2112, "healthy"), ("(v0.6.6) ", 112, "healthy")], ids=["short", "enough", "a release that looks at it"]
)
def test_an_early_release_that_starts_with_a_cache_below_one_request_is_not_called_healthy(version: str, blocks: int, cause: str) -> None:
    found = diagnose({"container.log": ENGINE.format(version=version) + BLOCKS.format(blocks=blocks)})
    assert found.cause == cause
    if cause != "healthy":
        assert remedies(found)[0] == "max_model_len:lower"


@pytest.mark.parametrize(
    "words",
    [
        "Killing container with id docker://server:Container failed liveness probe.. Container will be killed and recreated.",
        'Killing container with id docker://2f1c:pod "chat-0_llm(3f)" container "server" is unhealthy, it will be killed and re-created.',
    ],
)
def test_a_liveness_kill_in_the_words_of_old_kubelets_is_one(words: str) -> None:
    ended = pod([container(livenessProbe={"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10})], [status(last=terminated(137))])
    found = diagnose({"pod.json": ended, "events.json": {"items": [event("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500"), event("Killing", words)]}})
    assert found.cause == "probe_kill"


def free(cache: int, available: int) -> str:
    return f"$ free -m\n               total        used        free      shared  buff/cache   available\nMem:           32768        208       10240           1       {cache}       {available}\n"


@pytest.mark.parametrize(
    ("cache", "available", "cause"), [(21504, 31744, "application_error"), (500, 10740, "node_out_of_memory")], ids=["page cache", "really in use"]
)
def test_a_refusal_that_counts_page_cache_as_used_asks_for_no_bigger_machine(cache: int, available: int, cause: str) -> None:
    refused = 'level=INFO source=sched.go:561 msg="Load failed" error="model requires more system memory (18.3 GiB) than is available (10.6 GiB)"\n'
    found = diagnose({"container.log": refused, "node_readings.txt": free(cache, available)})
    assert (found.cause, "bigger_node" in remedies(found)) == (cause, cause == "node_out_of_memory")


@pytest.mark.parametrize(
    ("code", "ended", "cause"),
    [(143, "2026-01-14T09:31:09Z", "normal_termination"), (143, "2026-01-14T09:20:00Z", "unknown")],
    ids=["after the work", "before the work was done"],
)
def test_a_helper_that_is_stopped_after_the_work_is_done_has_not_failed(code: int, ended: str, cause: str) -> None:
    work = status("migrate", state={"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-14T09:00:00Z", "finishedAt": "2026-01-14T09:31:07Z"}})
    proxy = status("proxy", state={"terminated": {"exitCode": code, "reason": "Error", "startedAt": "2026-01-14T09:00:00Z", "finishedAt": ended}})
    found = diagnose({"pod.json": pod([container("migrate", "example.com/migrate:1"), container("proxy", "example.com/sql-proxy:1")], [work, proxy], status={"phase": "Failed"})})
    assert found.cause == cause


def test_a_compiler_without_host_memory_and_a_shell_that_saw_a_kill_speak_of_host_memory() -> None:
    compiler = diagnose({"container.log": "LLVM ERROR: out of memory\nFatal Python error: Aborted\n"})
    assert (compiler.cause, remedies(compiler)[0]) == ("abort", "host_memory_use:lower")
    for line in ("bash: line 1:    31 Killed                  python3 serve.py /models/m", "zsh: killed     python3 serve.py"):
        assert diagnose({"container.log": line + "\n"}).cause == "node_out_of_memory"


def test_an_object_store_on_disk_is_told_as_slow_and_not_as_a_failure() -> None:
    warned = "2025-10-06 17:20:31,118 WARNING services.py:2155 -- WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 5368709120 bytes available. This will harm performance!\n"
    found = diagnose({"container.log": warned + "2025-10-06 17:20:33,004 INFO worker.py:1951 -- Started a local Ray instance.\n"})
    assert (found.cause, remedies(found)) == ("shm_too_small", ["shm_size:raise", "none"])
