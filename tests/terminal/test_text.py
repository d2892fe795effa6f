"""The note reads like a colleague's: mechanism and certainty first, then the change as it is typed, proof, and what is left open."""

from dataclasses import replace

from bot.model import Certainty, Diagnosis, Gap, Quote, Recommendation, RunnerUp, Text, WillNotHelp
from bot.terminal.text import change, note
from bot.units import beside, gib, show

DIAGNOSIS = Diagnosis(
    cause="context_exceeds_kv_cache",
    family="device_memory",
    certainty=Certainty.CERTAIN,
    summary=Text("One request needs 24 GiB of cache, 10.58 GiB are left.", "一个请求需要 24 GiB 缓存，只剩 10.58 GiB。"),
    evidence=(Quote("container.log", 212, "KV cache is needed, which is larger", Text("One request needs more cache than there is.", "一个请求需要的缓存多于现有缓存。")),),
    recommendations=(
        Recommendation("max_model_len", "lower", Text("Set it lower.", "调低。"), Text("It fits by 0.08 GiB.", "还余 0.08 GiB。"), "low", 131072, 57344, general=True, option="--max-model-len"),
        Recommendation("bigger_gpu", "", Text("Use a card with more memory.", "换用显存更大的显卡。"), Text("The same settings fit.", "同样的设置可以放下。"), "medium", general=True),
    ),
    will_not_help=(
        WillNotHelp("gpu_memory_utilization", "lower", Text("No memory ran out.", "没有内存耗尽。")),
        WillNotHelp("gpu_memory_utilization", "raise", Text("No memory ran out.", "没有内存耗尽。")),
        WillNotHelp("restart", "", Text("The same sum.", "结果一样。")),
    ),
)


def test_the_first_line_has_mechanism_certainty_and_the_id_of_the_cause() -> None:
    first = note("llm/chat", DIAGNOSIS).splitlines()[0]
    assert first == "llm/chat: One request needs 24 GiB of cache, 10.58 GiB are left. Certain. [context_exceeds_kv_cache]"


def test_a_change_with_numbers_needs_no_sentence_that_says_what_the_option_is() -> None:
    text = note("x", DIAGNOSIS)
    assert "Fix: --max-model-len 131072 -> 57344. It fits by 0.08 GiB.\n" in text
    assert "Set it lower." not in text


def test_a_remedy_without_numbers_is_a_sentence_and_no_id() -> None:
    text = note("x", DIAGNOSIS)
    assert "Or: Use a card with more memory. The same settings fit." in text
    assert "bigger_gpu" not in text


def test_both_directions_of_a_knob_share_one_reason() -> None:
    assert "lowering or raising GPU memory utilisation: No memory ran out.\n  restarting: The same sum." in note("x", DIAGNOSIS)


def test_what_was_never_read_is_left_out_where_it_would_not_change_the_answer() -> None:
    gaps = (Gap("nvidia-smi.txt", "absent", "who uses the card", False), Gap("kernel.log", "SSH refused: unknown host key", "who was killed", False))
    text = note("x", replace(DIAGNOSIS, gaps=gaps))
    assert "nvidia-smi.txt" not in text
    assert text.endswith("Not readable:\n  kernel.log: who was killed (SSH refused: unknown host key). It would not change this answer.")


def test_an_unknown_cause_says_what_decides_it_before_anything_else() -> None:
    unknown = Diagnosis("unknown", "unknown", Certainty.POSSIBLE, Text("It ended with 137.", "以 137 结束。"), gaps=(Gap("kernel.log", "not available", "who sent it", True),))
    assert note("x", unknown) == "x: It ended with 137. Cannot tell. [unknown]\nWhat decides it:\n  kernel.log: who sent it (not in the evidence)\nNothing to change yet."


def test_what_speaks_against_it_and_what_is_open_is_shown() -> None:
    quote = Quote("pod.json", 124, '"reason": "OOMKilled",', Text("The runtime says OOMKilled.", "运行时写的是 OOMKilled。"))
    text = note("x", replace(DIAGNOSIS, against=(quote,), runners_up=(RunnerUp("probe_kill", Certainty.POSSIBLE),)))
    assert 'Against:\n  pod.json:124  "reason": "OOMKilled",\n      The runtime says OOMKilled.' in text
    assert "Also open: " in text
    assert "[probe_kill]" in text


def test_a_chinese_note_has_no_english_sentence_of_ours() -> None:
    text = note("x", DIAGNOSIS, "zh")
    assert "修改：--max-model-len 131072 -> 57344。还余 0.08 GiB。" in text
    assert "降低 GPU 显存利用率、提高 GPU 显存利用率：没有内存耗尽。" in text
    assert "Will not help" not in text


def test_a_size_keeps_the_unit_in_which_it_was_printed() -> None:
    assert show(gib("0.41")) == "0.41 GiB"
    assert show(448 << 20) == "448 MiB"
    assert show(gib("24.00")) == "24 GiB"
    assert beside(65_000_000) == "0.06 GiB"


def test_a_remedy_without_a_number_names_the_option_of_the_server_that_failed() -> None:
    advice = Recommendation("max_num_seqs", "lower", Text("Too many ran.", "并发过多。"), Text("Fewer run.", "并发变少。"), "low", option="--max-running-requests")
    assert "(--max-running-requests)" in change(advice, "en")
    assert "（--max-running-requests）" in change(advice, "zh")


def test_nothing_to_change_keeps_its_reason_and_what_else_is_advised() -> None:
    nothing = Recommendation("none", "", Text("Delete it without --force.", "删除时不要用 --force。"), Text("All stays."), "low")
    found = replace(DIAGNOSIS, recommendations=(nothing, *DIAGNOSIS.recommendations[:1]))
    assert "Nothing to change. Delete it without --force.\nOr: " in note("x", found)
    plain = replace(DIAGNOSIS, recommendations=(replace(nothing, why=Text("Nothing to change.", "无需更改。")),))
    assert note("x", plain).count("Nothing to change.") == 1
