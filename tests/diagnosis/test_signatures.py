"""What a signature says when facts are there, absent, or not looked at; how findings are weighed; which advice may stand first."""

from bot.diagnosis import recommend, words
from bot.diagnosis.rank import EXPLAINS, ranked
from bot.diagnosis.signatures import Finding, NoHelp, Remedy, Signature, judge
from bot.facts import Facts
from bot.model import Certainty, Fact, Text

PROBE = Signature(
    "probe_kill/x",
    "probe_kill",
    Text("The probe killed it."),
    when={"container.exit_code": {"one_of": [137, 143]}},
    unless={"container.reason": {"equals": "OOMKilled"}},
    certain_if={"kernel.looked": {"equals": True}},
)


def facts(looked: tuple[str, ...] = (), **values: object) -> Facts:
    return Facts((Fact(name.replace("__", "."), value) for name, value in values.items()), looked)  # type: ignore[arg-type]


def certainty(known: Facts) -> str:
    found = judge(PROBE, known)
    return found.certainty.value if found else "no"


def test_unknown_in_when_does_not_fire() -> None:
    assert certainty(facts(container__reason="Error")) == "no"


def test_unknown_in_unless_is_at_most_likely_and_names_the_gap() -> None:
    found = judge(PROBE, facts(container__exit_code=137, kernel__looked=True))
    assert found is not None
    assert found.certainty is Certainty.LIKELY
    assert found.unknown == ("container.reason",)


def test_unknown_in_certain_if_is_likely() -> None:
    assert certainty(facts(container__exit_code=137, container__reason="Error")) == "likely"


def test_all_known_is_certain_and_a_contradiction_is_no() -> None:
    assert certainty(facts(container__exit_code=137, container__reason="Error", kernel__looked=True)) == "certain"
    assert certainty(facts(container__exit_code=137, container__reason="OOMKilled", kernel__looked=True)) == "no"


def test_absent_in_unless_is_as_good_as_false() -> None:
    assert certainty(facts(("container.",), container__exit_code=137, kernel__looked=True)) == "certain"


def finding(cause: str, sure: Certainty, remedies: tuple[str, ...] = (), no_help: tuple[str, ...] = ()) -> Finding:
    made = Signature(
        f"{cause}/x", cause, Text("x"), {}, remedies=tuple(Remedy(item) for item in remedies), will_not_help=tuple(NoHelp(item) for item in no_help)
    )
    return Finding(made, sure)


def test_a_cause_that_explains_a_symptom_stands_before_it() -> None:
    both = [finding("free_memory_below_request", Certainty.CERTAIN), finding("other_process_on_gpu", Certainty.LIKELY)]
    assert [found.cause for found in ranked(both)] == ["other_process_on_gpu"]


def test_of_equally_sure_answers_one_that_something_failed_stands_before_one_that_nothing_did() -> None:
    nothing = Finding(Signature("healthy/x", "healthy", Text("x"), {"log.ready": {"equals": True}, "log.ended": {"equals": "ready"}}), Certainty.LIKELY)
    assert [found.cause for found in ranked([nothing, finding("unschedulable", Certainty.LIKELY)])] == ["unschedulable", "healthy"]
    assert ranked([nothing, finding("unschedulable", Certainty.POSSIBLE)])[0].cause == "healthy"


def test_a_mere_possibility_explains_nothing_away() -> None:
    both = [finding("free_memory_below_request", Certainty.CERTAIN), finding("other_process_on_gpu", Certainty.POSSIBLE)]
    assert ranked(both)[0].cause == "free_memory_below_request"


def test_no_cause_explains_itself_round_a_circle() -> None:
    assert not [(cause, symptom) for cause, symptoms in EXPLAINS.items() for symptom in symptoms if cause in EXPLAINS.get(symptom, ())]


def test_advice_that_hurts_under_an_open_rival_never_stands_first() -> None:
    best = finding("runtime_burst", Certainty.LIKELY, ("gpu_memory_utilization:lower", "limit_concurrency"))
    rival = finding("kv_cache_too_small", Certainty.POSSIBLE, no_help=("gpu_memory_utilization:lower",))
    assert [remedy.id for remedy in recommend.chosen([best, rival], facts())] == ["limit_concurrency", "gpu_memory_utilization:lower"]


def test_a_remedy_whose_condition_is_not_known_is_left_out() -> None:
    made = Remedy("tensor_parallel_size:raise", when={"gpus.spare_count": {"at_least": 1}})
    assert not made.applies(facts())
    assert made.applies(facts(gpus__spare_count=3))


def test_sizes_shares_and_counts_are_shown_in_one_way() -> None:
    known = facts(a__b_bytes=11_361_058_652, a__c_share=0.934, a__d=131072, a__e=0.9)
    shown = words.fill(Text("{a.b_bytes} {a.c_share} {a.d} {a.e} {a.f}", "{a.f}"), known)
    assert shown.en == "10.58 GiB 93% 131,072 0.9 an unknown amount"
    assert shown.zh == "未知"


def test_of_a_bracket_only_what_was_read_is_said_and_nothing_of_one_without() -> None:
    template = Text("It ran out ({a.b_bytes} asked, {a.c_bytes} free); see {a.d}.", "显存不足（申请 {a.b_bytes}，剩 {a.c_bytes}）；见 {a.d}。")
    nothing = words.fill(template, facts(a__d=3))
    assert (nothing.en, nothing.zh) == ("It ran out; see 3.", "显存不足；见 3。")
    assert words.fill(template, facts(a__b_bytes=1 << 30, a__d=3)).en == "It ran out (1 GiB asked); see 3."
    assert words.fill(template, facts(a__c_bytes=1 << 30, a__d=3)).zh == "显存不足（剩 1 GiB）；见 3。"
    between = Text("It has {a.b_bytes} ({a.c_bytes} of {a.d_bytes} free).")
    assert words.fill(between, facts(a__c_bytes=1 << 30)).en == "It has an unknown amount (1 GiB of an unknown amount free)."
