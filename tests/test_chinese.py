"""Whoever reads Chinese gets Chinese: every text of the playbooks, every Text in the code, every gap, fact and code has its sentence.

English stays where it is a name or a command; `ALLOWED` lists the few texts that are nothing else, each with its reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import gap_words
from bot.diagnosis import codes, fact_words
from bot.diagnosis.sizing_words import in_chinese
from bot.errors import BadInput
from bot.evidence.commands import kernel, memory, nvidia_smi, ray
from bot.evidence.commands.command import Command
from bot.evidence.probe import TELLS
from bot.incident import WOULD_TELL
from bot.model import Fact, Gap, Text
from bot.playbooks import load

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {
    "bot/diagnosis/conclude.py": "the last resort for a fact without words; test_every_quoted_fact_has_its_sentence shows that no signature needs it",
    "bot/diagnosis/recommend.py": "the last resort for a remedy that remedies.yaml does not describe; lint refuses such a remedy",
    "bot/playbooks/read.py": "makes texts from files, which are checked here themselves",
}
KNOWLEDGE = load()


def _chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def _knowledge() -> Iterator[tuple[str, Text]]:
    for message in KNOWLEDGE.messages:
        yield message.id, message.says
    for signature in KNOWLEDGE.signatures:
        yield signature.id, signature.says
        texts = [part.why for part in (*signature.remedies, *signature.will_not_help)]
        texts += [*signature.quotes.values(), *(decider.would_tell for decider in signature.deciders)]
        yield from ((signature.id, text) for text in texts if text is not None)
    for name, remedy in KNOWLEDGE.remedies.items():
        yield from ((name, text) for text in (remedy.says, remedy.effect))


def test_every_text_of_the_playbooks_is_said_in_chinese() -> None:
    assert [f"{where}: {text.en}" for where, text in _knowledge() if not _chinese(text.zh)] == []


def _texts(file: Path) -> Iterator[tuple[int, ast.Call]]:
    for found in ast.walk(ast.parse(file.read_text())):
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "Text" and found.args:
            yield found.lineno, found


def _is_chinese(call: ast.Call) -> bool:
    """Whether the second argument has Chinese, or is computed where that cannot be seen."""
    if isinstance(call.args[0], ast.Starred) or (isinstance(call.args[0], ast.Constant) and not call.args[0].value):
        return True
    if len(call.args) < 2:
        return False
    constants = [part.value for part in ast.walk(call.args[1]) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    written = isinstance(call.args[1], (ast.Constant, ast.JoinedStr))
    return not written or any(map(_chinese, constants)) or not _speaks(call.args[0])


def _speaks(english: ast.expr) -> bool:
    """Whether the English has words of its own: a name, a code or a bare number needs no translation."""
    constants = [part.value for part in ast.walk(english) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return any(word.islower() and word.isalpha() and len(word) > 2 for constant in constants for word in constant.split())


@pytest.mark.parametrize("folder", ["bot", "handlers"])
def test_every_text_in_the_code_is_said_in_chinese(folder: str) -> None:
    silent = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        name = str(file.relative_to(ROOT))
        if name not in ALLOWED:
            silent += [f"{name}:{line}" for line, call in _texts(file) if not _is_chinese(call)]
    assert silent == []


def test_every_quoted_fact_has_its_sentence() -> None:
    messages = {message.id for message in KNOWLEDGE.messages}
    silent = set()
    for signature in KNOWLEDGE.signatures:
        for name in (*signature.when, *signature.certain_if, *(name for name, says in signature.quotes.items() if says is None)):
            told = {name, name.replace("stack.", "frame.", 1), name.rpartition(".")[0]} & messages
            if not told and fact_words.of(Fact(name, "x")) is None:
                silent.add(f"{signature.id}: {name}")
    assert sorted(silent) == []


def test_every_sentence_for_a_fact_is_said_in_chinese() -> None:
    assert [name for name, text in fact_words.SAYS.items() if not _chinese(text.zh)] == []


def test_a_code_is_written_in_words_only_where_a_fact_holds_codes() -> None:
    assert codes.in_words("failure.phase", "graph_capture", "zh") == "graph 捕获"
    assert codes.in_words("kernel.victim", "node", "en") == "node"
    assert codes.in_words("failure.purpose", "kv_transfer", "en") == "kv transfer"


def _gap_calls() -> Iterator[tuple[str, str, bool]]:
    """Every constant sentence of a Gap in the code that reads evidence: where, the sentence, whether it is the reason."""
    for file in [*(ROOT / "bot" / "evidence").rglob("*.py"), ROOT / "bot" / "incident.py"]:
        tree = ast.parse(file.read_text())
        constants = {
            target.id: part.value.value
            for part in tree.body
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
            for target in part.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Gap":
                for index, argument in enumerate(call.args[1:3]):
                    known = constants.get(argument.id) if isinstance(argument, ast.Name) else argument.value if isinstance(argument, ast.Constant) else None
                    if isinstance(known, str) and known:
                        yield f"{file.name}:{call.lineno}", known, index == 0


def test_every_gap_is_said_in_chinese() -> None:
    silent = []
    for where, sentence, is_reason in _gap_calls():
        said = gap_words.reason(Gap("x", sentence), "zh") if is_reason else gap_words.tells(Gap("x", "", sentence), "zh")
        silent += [] if _chinese(said) else [f"{where}: {sentence}"]
    assert silent == []


def _refusals() -> Iterator[str]:
    """Every refusal of the what-if that a diagnosis may quote; those about what somebody typed are the command line's, which speaks English."""
    for call in ast.walk(ast.parse((ROOT / "bot/diagnosis/sizing_whatif.py").read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "BadInput" and isinstance(call.args[0], (ast.Constant, ast.JoinedStr)):
            parts = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
            said = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
            if " must be " not in said and not said.startswith(("no setting", "cudagraph_estimate can be")):
                yield said


def test_every_refusal_of_a_what_if_is_said_in_chinese() -> None:
    said = list(_refusals())
    assert len(said) > 8
    assert [sentence for sentence in said if not _chinese(in_chinese(BadInput(sentence)))] == []


def test_what_a_command_or_a_missing_file_would_tell_is_said_in_chinese() -> None:
    commands = [value for module in (kernel, memory, nvidia_smi, ray) for value in vars(module).values() if isinstance(value, Command)]
    told = [*TELLS.values(), *WOULD_TELL.values(), *(command.would_tell for command in commands)]
    assert [sentence for sentence in told if not _chinese(gap_words.tells(Gap("x", "", sentence), "zh"))] == []


def test_the_words_of_the_outside_stay_behind_a_reason_in_chinese() -> None:
    assert gap_words.reason(Gap("kernel.log", "SSH refused: the host key of node-1 is not known"), "zh") == "SSH 被拒绝：the host key of node-1 is not known"
    assert gap_words.reason(Gap("kernel.log", "absent"), "en") == "not in the evidence"
    assert not gap_words.given(Gap("kernel.log", "not available"))
