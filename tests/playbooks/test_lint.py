"""Lint reports every mistake at once, each with file and line, and refuses what would be slow or noisy."""

import shutil
from pathlib import Path

import pytest

from bot.errors import KnowledgeError
from bot.playbooks import folder, load
from bot.playbooks.proof import mistakes

MESSAGE = """id: test.one
says: A test.
anchors: ["needle in hay "]
pattern: 'needle in hay (?P<size>[\\d.]+) GiB'
fields: {size: gib}
role: fatal
kind: test
printed_by: a farmer
versions: ">=1.0"
examples:
  - {line: "a needle in hay 10.58 GiB", facts: {size: 10.58 GiB}}
not:
  - "a needle in straw 10.58 GiB"
"""
SIGNATURE = """cause: gpu_oom
says: Out of memory, {failure.kind}.
when:
  failure.kind: {equals: test}
remedies: [restart]
examples:
  - {facts: {failure.kind: test}, fires: certain}
  - {facts: {failure.kind: other}, fires: no}
"""
REMEDIES = "restart: {says: Start again., effect: It starts again.}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (("log_messages/one.yaml", MESSAGE), ("signatures/gpu_oom/one.yaml", SIGNATURE), ("remedies.yaml", REMEDIES)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def change(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def test_a_right_folder_has_no_mistakes(root: Path) -> None:
    assert mistakes(root) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("role: fatal", "role: deadly", 6, "none of"),
        ("fields: {size: gib}", "fields: {size: furlongs}", 5, "none of"),
        ("says: A test.\n", "", 1, "'says' is missing"),
        ("printed_by: a farmer\n", "", 1, "who prints it is missing"),
        ('versions: ">=1.0"\n', "", 1, "which releases print it is missing"),
        ('["needle in hay "]', '["nee"]', 3, "4 to 240 bytes"),
        ("kind: test", "knid: test", 7, "unknown key"),
        ("kind: test\n", "", 6, "needs a kind"),
        ("fields: {size: gib}", "fields: {width: gib}", 5, "only one of pattern and fields"),
        ("(?P<size>[\\d.]+)", "(?P<size>[\\d.]+", 4, "not a regular expression"),
        ("10.58 GiB}}", "11.00 GiB}}", 11, "not '11.00 GiB'"),
        ('line: "a needle', 'line: "a haystack', 11, "does not match"),
        ("needle in straw", "needle in hay", 13, "matches, and must not"),
        ('not:\n  - "a needle in straw 10.58 GiB"\n', "", 1, "has no near miss"),
        ("needle in hay (?P<size>[\\d.]+) GiB", "(\\d+,?)+ needle in hay (?P<size>[\\d.]+) GiB", 4, "too slow"),
        ('["needle in hay "]', '["needle in hay ", "GPU KV cache usage: "]', 3, "prints all the time"),
    ],
)
def test_a_wrong_message_is_named_with_its_line(root: Path, old: str, new: str, line: int, says: str) -> None:
    change(root, "log_messages/one.yaml", old, new)
    found = mistakes(root)
    assert any(entry.startswith(f"log_messages/one.yaml:{line}:") and says in entry for entry in found), found


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("cause: gpu_oom", "cause: gremlins", 1, "no cause"),
        ("cause: gpu_oom", "cause: weights_too_large", 1, "folder"),
        ("remedies: [restart]", "quotes: [engine.block_size]\nremedies: [restart]", 5, "no sentence says what"),
        ("failure.kind: {equals: test}\nremedies", "failure.knid: {equals: test}\nremedies", 4, "no fact"),
        ("{equals: test}\nremedies", "{equal: test}\nremedies", 4, "seven predicates"),
        ("[restart]", "[reboot]", 5, "no remedy"),
        ("fires: certain", "fires: possible", 7, "fires certain, not possible"),
        ("{failure.kind}", "{failure.colour}", 1, "placeholder"),
        ("  - {facts: {failure.kind: test}, fires: certain}\n", "", 6, "no example fires"),
        ("says: Out", "says: [Out", 4, "not YAML"),
    ],
)
def test_a_wrong_signature_is_named_with_its_line(root: Path, old: str, new: str, line: int, says: str) -> None:
    change(root, "signatures/gpu_oom/one.yaml", old, new)
    found = mistakes(root)
    assert any(entry.startswith("signatures/gpu_oom/one.yaml:") and says in entry for entry in found), found
    if says != "not YAML":
        assert any(entry.startswith(f"signatures/gpu_oom/one.yaml:{line}:") for entry in found), found


def test_all_mistakes_are_reported_at_once(root: Path) -> None:
    change(root, "log_messages/one.yaml", "role: fatal", "role: deadly")
    change(root, "signatures/gpu_oom/one.yaml", "{equals: test}\nremedies", "{equal: test}\nremedies")
    with pytest.raises(KnowledgeError) as raised:
        load(root)
    assert len(raised.value.mistakes) == 2


def test_an_id_that_stands_twice_is_named(root: Path) -> None:
    shutil.copy(root / "log_messages/one.yaml", root / "log_messages/two.yaml")
    assert any("stands also in log_messages/one.yaml" in entry for entry in mistakes(root))


def test_proofs_in_front_of_knowledge_are_refused(root: Path) -> None:
    (root / "log_messages/one.yaml").write_text("examples:\n  - {line: 'a needle in hay 1 GiB'}\n" + MESSAGE.split("examples:")[0])
    assert mistakes(root)


def test_a_changed_file_is_read_again_at_the_next_start(root: Path) -> None:
    assert load(root).messages[0].kind == "test"
    assert (root / "__pycache__" / "knowledge.json").exists()
    change(root, "log_messages/one.yaml", "kind: test", "kind: other")
    assert load(root).messages[0].kind == "other"


def test_a_spoiled_cache_is_no_harm(root: Path) -> None:
    load(root)
    (root / "__pycache__" / "knowledge.json").write_text('{"format": 1, "stamp": [')
    assert load(root).messages[0].kind == "test"


def test_a_folder_that_cannot_be_written_is_no_harm(root: Path) -> None:
    (root / "__pycache__").write_text("in the way")
    assert load(root).messages[0].kind == "test"


def test_our_own_remedies_are_the_whole_vocabulary() -> None:
    knowledge = load()
    assert len(knowledge.remedies) == 75
    assert all(text.says.zh and text.effect.zh for text in knowledge.remedies.values())


def test_every_signature_says_it_in_both_languages() -> None:
    assert [item.id for item in load().signatures if not item.says.zh] == []


def test_the_playbooks_stand_beside_the_package() -> None:
    assert (folder() / "README.md").exists()


SERVER = """name: Other
command: 'other-serve'
options:
  max_num_seqs: {option: --most, kind: count, low: 1, high: 64}
lacks:
  "kv_cache_dtype:fp8":
examples:
  command: ["other-serve model"]
not:
  command: ["vllm serve model"]
"""
SPELLED = """restart: {says: Start again., effect: It starts again.}
"max_num_seqs:lower": {says: "Set {option.max_num_seqs} lower.", effect: Fewer run.}
"kv_cache_dtype:fp8": {says: "Use {option.kv_cache_dtype}.", effect: Half.}
"""
ASSUMED = """name: First
assumed: true
command: 'vllm serve'
options:
  max_num_seqs: {option: --max-num-seqs, kind: count, low: 1, high: 64}
  kv_cache_dtype: {option: --kv-cache-dtype, kind: word, to: fp8}
examples:
  command: ["vllm serve model"]
"""


def _with_servers(root: Path, other: str) -> list[str]:
    (root / "servers").mkdir(exist_ok=True)
    (root / "servers/first.yaml").write_text(ASSUMED)
    (root / "servers/other.yaml").write_text(other)
    (root / "remedies.yaml").write_text(SPELLED)
    return mistakes(root)


def test_a_server_that_says_what_each_option_is_has_no_mistakes(root: Path) -> None:
    assert _with_servers(root, SERVER) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('lacks:\n  "kv_cache_dtype:fp8":\n', "", "says neither what kv_cache_dtype:fp8 means here"),
        ("max_num_seqs: {option: --most,", "most_seqs: {option: --most,", "no knob 'most_seqs'"),
        ("option: --most", "option: most of it", "must be an option as it is typed"),
        ("high: 64", "high: 1", "needs low and high"),
        ('lacks:\n  "kv_cache_dtype:fp8":', 'lacks:\n  "kv_cache:fp8":', "no remedy is called kv_cache:fp8"),
        ('["other-serve model"]', '["something else"]', "not recognised by command"),
        ("vllm serve model", "other-serve model", "is recognised by command"),
        ('"kv_cache_dtype:fp8":', '"kv_cache_dtype:fp8": Half of it.', "must be {en: text, zh: text}"),
    ],
)
def test_a_mistake_in_a_server_is_named(root: Path, old: str, new: str, says: str) -> None:
    assert old in SERVER
    found = _with_servers(root, SERVER.replace(old, new))
    assert any(line.startswith("servers/other.yaml:") and says in line for line in found), found


def test_a_meaning_elsewhere_that_asks_for_an_unknown_fact_is_named(root: Path) -> None:
    (root / "remedies.yaml").write_text("restart:\n  says: Start again.\n  effect: It starts again.\n  where:\n    - {if: {no.fact: {equals: 1}}, adds: 'Or {no.text}.'}\n")
    found = mistakes(root)
    assert any("remedies.yaml:5" in line and "no fact 'no.fact'" in line for line in found), found
    assert any("no fact 'no.text'" in line for line in found), found
