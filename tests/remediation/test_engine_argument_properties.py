"""Whatever the command line looks like, a parser like the engine's reads the new value afterwards, and the undo restores every item."""

import argparse

from hypothesis import given
from hypothesis import strategies as st

from bot.model import ObjectRef
from bot.remediation.change import Change
from bot.remediation.engine_argument import change
from bot.remediation.engine_options import NEIGHBOURS, OPTIONS
from bot.remediation.pointer import MISSING, apply
from bot.remediation.workload import Workload
from tests.remediation.shelf import container, workload

COUNTS = ("max-model-len", "max-num-seqs", "max-num-batched-tokens")
# an abbreviation that our parser below accepts as well
SPELLINGS = {
    "max-model-len": ("max-model-len", "max_model_len", "max-model", "max-model_l"),
    "max-num-seqs": ("max-num-seqs", "max_num_seqs", "max-num-se"),
    "max-num-batched-tokens": ("max-num-batched-tokens", "max_num_batched_tokens", "max-num-b"),
}


def engine_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("model", nargs="?")
    for name in (*OPTIONS, *NEIGHBOURS):
        switch = name in OPTIONS and OPTIONS[name].kind == "switch"
        parser.add_argument(f"--{name}", action="store_true" if switch else "store")
    return parser


def read(args: list[str]) -> dict[str, object]:
    """As the engine does: underscores in keys are dashes, abbreviations count, the last one wins."""
    plain = [
        f"--{item[2:].partition('=')[0].replace('_', '-')}{item[item.index('=') :] if '=' in item else ''}" if item.startswith("--") else item for item in args
    ]
    return vars(engine_parser().parse_args(plain))


@st.composite
def occurrence(draw: st.DrawFn) -> list[str]:
    key = f"--{draw(st.sampled_from(SPELLINGS[draw(st.sampled_from(COUNTS))]))}"
    value = str(draw(st.integers(1, 10**6)))
    return [f"{key}={value}"] if draw(st.booleans()) else [key, value]


other = st.sampled_from([["--max-num-partial-prefills=2"], ["--enforce-eager"], ["--max-loras", "4"], ["--kv-cache-dtype=auto"], ["--disable-log-stats", "x"]])
lines = st.lists(st.one_of(occurrence(), other), max_size=7).map(lambda parts: ["llama", *(item for part in parts for item in part)])


@given(args=lines, split=st.integers(0, 20), name=st.sampled_from(COUNTS), value=st.integers(16, 8000))
def test_the_engine_reads_the_new_value_and_nothing_else_changes(args: list[str], split: int, name: str, value: int) -> None:
    command, rest = ["vllm", "serve", *args[:split]], args[split:]
    body = workload(containers=[container(command=command, args=rest or None)])
    here = Workload(ObjectRef("apps/v1", "Deployment", "llm", "chat", "u"), body, 0)
    done = change(here, name, value)
    before = read(args)
    key = name.replace("-", "_")
    if not isinstance(done, Change):
        assert before[key] == str(value)
        return
    after = apply(body, [edit.operation() for edit in done.edits])
    now = after["spec"]["template"]["spec"]["containers"][0]
    assert read([*now["command"][2:], *now.get("args", [])]) == {**before, key: str(value)}
    back = [{"op": "remove" if edit.before is MISSING else "replace", "path": edit.pointer, "value": edit.before} for edit in reversed(done.edits)]
    assert apply(after, back) == body
