"""Every message, in every state and both languages: within Slack's limits, and nothing from outside can ping, link or act."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bot.model import Alert, Button, Case, Certainty, Recommendation, State, TargetQuery, Text, Words
from bot.sandbox.slack import limits
from handlers.slack import blocks, kit
from tests.handlers.incidents import DIAGNOSIS, HOSTILE, PURPOSES, case, hostile, huge, operation, request, with_notes

LANGUAGES = ("en", "zh")


def shown(made: Case, purpose: str, language: str = "en") -> str:
    return limits.shown(blocks.message(made, purpose, language, ("S01ONCALL",))[1])


def buttons(made: Case, purpose: str) -> list[str]:
    return [str(button["text"]["text"]) for button in limits.buttons(blocks.message(made, purpose, "en")[1])]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_state_renders_in_both_languages_within_the_limits(state: State, purpose: str, language: str) -> None:
    text, made = blocks.message(case(state), purpose, language, ("S01ONCALL", "U02JO"))
    assert text
    assert limits.message_mistakes(text, made) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_huge_diagnosis_stays_within_the_limits(purpose: str, language: str) -> None:
    text, made = blocks.message(huge(), purpose, language)
    assert limits.message_mistakes(text, made) == []
    assert len(text) <= 4000


def test_what_does_not_fit_is_said_to_be_left_out() -> None:
    assert "More was left out here" in shown(huge(), "note:1")


def test_buttons_survive_when_a_message_is_cut() -> None:
    made = huge()
    assert {"Go on", "Undo", "Leave as it is"} <= set(buttons(made, "outcome:op-1"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("purpose", [*PURPOSES, "top-failed"])
def test_text_from_outside_cannot_ping_or_link(purpose: str, language: str) -> None:
    made = hostile()
    if purpose == "top-failed":
        made, purpose = replace(made, state=State.CHECK_FAILED, diagnosis=None), "top"
    text, built = blocks.message(made, purpose, language, ("S01ONCALL",))
    assert set(limits.pings(text, built)) <= {"!subteam^S01ONCALL", "@U01ANA", "@U02JO", "@U03WEI"}
    assert "!channel" not in limits.pings(text, built)
    for node in parsed_texts(built):
        assert "<https://evil" not in node
        assert "<!channel>" not in node
        assert "\x1b" not in node
        assert "\u202e" not in node


def parsed_texts(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        own = [tree["text"]] if tree.get("type") == "mrkdwn" else []
        return own + [each for value in tree.values() for each in parsed_texts(value)]
    return [each for value in tree for each in parsed_texts(value)] if isinstance(tree, list) else []


def test_a_log_line_is_quoted_in_text_that_slack_does_not_parse() -> None:
    _, built = blocks.message(hostile(), "evidence", "en")
    preformatted = [element for block in built if block["type"] == "rich_text" for element in block["elements"] if element["type"] == "rich_text_preformatted"]
    assert "<!channel>" in preformatted[0]["elements"][0]["text"]
    assert "\u202e" not in json.dumps(built, ensure_ascii=False)


def test_a_backtick_from_outside_cannot_leave_its_code_span() -> None:
    assert kit.escape(HOSTILE).count("`") == 0


def test_a_button_carries_an_opaque_id_and_nothing_else() -> None:
    for purpose in PURPOSES:
        for button in limits.buttons(blocks.message(case(State.AWAITING_APPROVAL), purpose, "en")[1]):
            assert button["value"].startswith("id-")
            assert set(button) <= {"type", "text", "action_id", "value", "style", "confirm", "block_id"}


def test_action_ids_differ_within_each_message() -> None:
    for purpose in PURPOSES:
        ids = [button["action_id"] for button in limits.buttons(blocks.message(case(State.STUCK), purpose, "en")[1])]
        assert len(ids) == len(set(ids))


def test_the_top_message_says_mechanism_certainty_fix_and_state() -> None:
    text = shown(case(State.DIAGNOSED), "top")
    assert "llm/chat-7d9f-x2x (vLLM 0.11.0): cannot start: one request of 131,072 tokens needs 24.0 GiB of cache" in text
    assert "Certain." in text
    assert "Fix: `--max-model-len 131072 -> 57344`" in text
    assert "State: waiting for a decision." in text


def test_an_alert_is_named_with_a_link_to_it() -> None:
    made = case(State.CHECK_FAILED, request=request(alert=Alert("k", "pagerduty", "chat is down", {}, "https://acme.pagerduty.com/incidents/Q1?a=1&b=2")))
    assert "Alert from <https://acme.pagerduty.com/incidents/Q1?a=1&b=2|PagerDuty>: chat is down" in shown(made, "top")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a.example/<!channel>", "https://a.example/|x>", "", "https://a.example/ b"])
def test_what_is_no_address_is_no_link(url: str) -> None:
    assert kit.link(url, "PagerDuty") == "PagerDuty"


def test_progress_stands_in_the_top_message_while_it_works() -> None:
    text = shown(case(State.CHECKING), "top")
    assert "Looking at `chat-7d9f`." in text
    assert "read: pod (12 events)" in text
    assert "not readable: kernel log (host key not known)" in text
    assert "未" not in text
    assert "无法读取: 内核日志" in shown(case(State.CHECKING), "top", "zh")


def test_the_unknown_is_not_called_possible() -> None:
    made = case(State.DIAGNOSED, diagnosis=replace(DIAGNOSIS, cause="unknown", certainty=Certainty.POSSIBLE, recommendations=()))
    assert "Cannot tell." in shown(made, "top")
    assert "Nothing to change yet." in shown(made, "top")


def test_nothing_to_change_is_not_offered_as_a_change() -> None:
    nothing = Recommendation("none", "", Text("Nothing to change."), Text("All stays as it is."), "low")
    made = case(State.DIAGNOSED, diagnosis=replace(DIAGNOSIS, cause="healthy", recommendations=(nothing,)), buttons=())
    assert "Nothing to change." in shown(made, "top")
    assert "What to change" not in shown(made, "recommendation")
    assert "Risk" not in shown(made, "recommendation")
    assert shown(made, "top").count("Nothing to change.") == 1
    told = replace(nothing, why=Text("Delete it without --force & wait."))
    made = case(State.DIAGNOSED, diagnosis=replace(DIAGNOSIS, cause="healthy", recommendations=(told,)), buttons=())
    assert "Nothing to change. Delete it without --force & wait." in shown(made, "top")


def test_a_remedy_without_a_number_names_the_option_of_the_server_that_failed() -> None:
    advice = Recommendation("max_num_seqs", "lower", Text("Fewer at once."), Text("Fewer requests run at once."), "low", option="--max-running-requests")
    text = shown(case(State.DIAGNOSED, diagnosis=replace(DIAGNOSIS, recommendations=(advice,)), buttons=()), "top")
    assert "(`--max-running-requests`)" in text


def test_a_case_whose_alert_names_nothing_is_called_by_the_alerts_title() -> None:
    query = TargetQuery("labels pod, namespace; the alert has: host", "unknown")
    asked = replace(request(alert=Alert("k", "pagerduty", "disk full on db-1")), query=query)
    trouble = Words("alert_names_nothing", {"title": "disk full on db-1", "looked_for": query.text})
    text = shown(case(State.CHECK_FAILED, request=asked, trouble=trouble), "top")
    assert "`disk full on db-1` could not be checked." in text
    assert "Looked for: labels pod, namespace; the alert has: host." in text


def test_evidence_has_the_ledger_as_a_table_and_quotes_with_their_places() -> None:
    text = shown(case(State.DIAGNOSED), "evidence")
    assert "of the card's 44.40 GiB | GiB" in text
    assert "left for cache | 10.58 = 57,776 tokens" in text
    assert "The cache is too small. (container.log:212)" in text
    assert "kernel.log: who was killed (no SSH access configured). It would not change this answer." in text


def test_recommendations_say_what_will_not_help() -> None:
    text = shown(case(State.DIAGNOSED), "recommendation")
    assert "lowering GPU memory utilisation: It makes the cache smaller." in text
    assert "Keep the KV cache in fp8" in text
    assert buttons(case(State.DIAGNOSED), "recommendation") == ["Apply", "Apply"]


@pytest.mark.parametrize(("language", "words"), [("en", "Show how"), ("zh", "查看做法")])
def test_what_the_bot_only_shows_is_not_called_apply(language: str, words: str) -> None:
    made = case(State.DIAGNOSED, buttons=(Button("id-show", "show", 0), Button("id-apply", "apply", 1)))
    faces = [button["text"]["text"] for button in limits.buttons(blocks.message(made, "recommendation", language)[1])]
    assert faces == [words, {"en": "Apply", "zh": "应用"}[language]]
    assert words in [button["text"]["text"] for button in limits.buttons(blocks.message(made, "top", language)[1])]


def test_the_preview_shows_diff_all_writes_who_may_and_until_when() -> None:
    made = case(State.AWAITING_APPROVAL)
    text = shown(made, "plan:plan-1")
    assert "-    - --max-model-len=131072" in text
    assert "2. Let the old pod go first. (delete this pod: Pod llm/chat-7d9f-x2x)" in text
    assert "Needs one of <!subteam^S01ONCALL>, not <@U02JO>, <@U01ANA>." in text
    assert "<!date^" in text
    assert buttons(made, "plan:plan-1") == ["Approve", "Reject..."]


def test_a_plan_that_cannot_be_shown_whole_cannot_be_approved() -> None:
    waiting = operation(State.AWAITING_APPROVAL)
    long = replace(waiting, remediation=replace(waiting.remediation, diff="+ a line\n" * 400 + "+ hidden\n"))
    made = case(State.AWAITING_APPROVAL, operation=long)
    assert buttons(made, "plan:plan-1") == ["Reject..."]
    assert "too long to be shown whole, so it cannot be approved" in shown(made, "plan:plan-1")


@pytest.mark.parametrize("length", range(200, 3400, 400))
def test_behind_an_approve_button_nothing_of_the_plan_is_left_out(length: int) -> None:
    waiting = operation(State.AWAITING_APPROVAL)
    says = Text("w" * length + " end-of-step")
    plan = replace(waiting.remediation, diff="d" * length + " end-of-diff", notes=(Text("n" * length + " end-of-note"),), steps=(replace(waiting.remediation.steps[0], says=says),) * 2)
    made = case(State.AWAITING_APPROVAL, operation=replace(waiting, remediation=plan))
    text = shown(made, "plan:plan-1")
    if "Approve" in buttons(made, "plan:plan-1"):
        assert all(word in text for word in ("end-of-step", "end-of-diff", "end-of-note"))
    else:
        assert "too long to be shown whole" in text


def test_approve_asks_once_more_and_names_the_change() -> None:
    approve = limits.buttons(blocks.message(case(State.AWAITING_APPROVAL), "plan:plan-1", "en")[1])[0]
    assert "Deployment llm/chat: Lower the maximum context length" in approve["confirm"]["text"]["text"]


def test_an_approved_plan_has_no_buttons_left() -> None:
    assert buttons(case(State.WATCHING), "plan:plan-1") == []
    assert "Approved by <@U03WEI>" in shown(case(State.WATCHING), "plan:plan-1")


def test_a_plan_that_came_to_nothing_says_why() -> None:
    made = case(State.DIAGNOSED, operation=replace(case(State.AWAITING_APPROVAL).operation, ended=Words("expired", {"at": "10:42"})))  # type: ignore[type-var]
    assert "*Not carried out.* Too late: the approval expired at 10:42." in shown(made, "plan:plan-1")


def test_who_may_not_approve_is_not_named_where_one_person_is_enough() -> None:
    text = limits.shown(blocks.message(case(State.AWAITING_APPROVAL), "plan:plan-1", "en", ("S01ONCALL",), second_person=False)[1])
    assert "Needs one of <!subteam^S01ONCALL>. Until" in text


def test_an_operation_whose_first_step_was_refused_says_why() -> None:
    refused = Words("step_refused", {"step": "1", "reason": "exceeded quota"})
    made = case(State.DIAGNOSED, operation=None, operations=(replace(operation(State.EXECUTING), rollout=None, started_at=None, ended=refused),), trouble=refused)
    assert "*Not carried out.* Step 1 was not carried out: exceeded quota" in shown(made, "outcome:op-1")


def test_a_stuck_rollout_says_why_and_offers_wait_undo_leave() -> None:
    made = case(State.STUCK)
    assert "no node takes the new pod." in shown(made, "outcome:op-1")
    assert "0/3 nodes are available" in shown(made, "outcome:op-1")
    assert buttons(made, "outcome:op-1") == ["Wait", "Undo", "Leave as it is"]


@pytest.mark.parametrize(("state", "word"), [(State.VERIFIED, "Verified"), (State.VERIFICATION_FAILED, "Failed again"), (State.NOT_VERIFIABLE, "Could not be verified"), (State.UNDONE, "Undone")])
def test_the_outcome_has_its_verdict_and_the_head_of_the_audit_trail(state: State, word: str) -> None:
    text = shown(case(state), "outcome:op-1")
    assert f"{word} at" in text
    assert f"Audit trail at 27:{'a' * 24}." in text  # as much as `oombot audit verify --head` needs, on one line of a phone


def test_a_failed_verification_shows_the_new_diagnosis() -> None:
    assert "New diagnosis: cannot start" in shown(case(State.VERIFICATION_FAILED), "outcome:op-1")


def test_a_note_carries_refusal_differences_and_the_patch_to_paste() -> None:
    text = shown(with_notes(), "note:1")
    assert "Refused: you may not approve or reject this. Who may: <!subteam^S01ONCALL>." in text
    assert "changed by `argocd-application-controller`" in text
    assert "- --max-num-seqs=64" in text
    assert "--kv-cache-dtype=fp8" in text


def test_chinese_messages_are_chinese() -> None:
    text = shown(case(State.DIAGNOSED), "top", "zh")
    assert "无法启动" in text
    assert "状态：等待决定。" in text


def test_an_unknown_purpose_is_refused() -> None:
    with pytest.raises(ValueError, match="no message for the purpose 'nonsense'"):
        blocks.message(case(State.DIAGNOSED), "nonsense", "en")
