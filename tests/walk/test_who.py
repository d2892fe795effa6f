"""Who may do and see what, through Slack: guests, strangers of a shared channel, other channels, second accounts, people whose rights end in between."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.cases.approval import OF_THE_PERSON
from bot.model import State
from bot.policy import ReadRule
from bot.reach import Reach
from bot.sandbox.slack.fake import PEOPLE
from bot.sandbox.slack.workspace import Channel, Group, Member
from handlers.messages import LANGUAGES, Messages
from tests.walk.slack_stage import CHANNEL, POLICY, SlackStage

Make = Callable[..., SlackStage]
SHARED = (Channel(CHANNEL, "gpu-oncall", shared=True), Channel("C02RANDOM", "random"))
GUEST, STRANGER = "Refused: guests may not use oombot.", "Refused: people of another organisation may not use oombot."


@pytest.mark.parametrize(("who", "refusal"), [("Gil", GUEST), ("Stranger", STRANGER)])
@pytest.mark.parametrize("line", ["status", "history", "freeze", "unfreeze"])
def test_guests_and_strangers_of_a_shared_channel_read_and_stop_nothing(workspace: Make, who: str, refusal: str, line: str) -> None:
    stage = workspace(channels=SHARED)
    stage.typed("Ana", "check llm/chat-old")
    assert stage.typed(who, line) == refusal
    assert stage.cases.status(stage.case.request.actor, stage.case.request.conversation).frozen is None


@pytest.mark.parametrize(("who", "refusal"), [("Gil", GUEST), ("Stranger", STRANGER)])
def test_guests_and_strangers_are_refused_at_every_button(workspace: Make, who: str, refusal: str) -> None:
    stage = workspace(replace(POLICY, approvers=(replace(POLICY.approvers[0], people=("U04GIL", "U05STRANGER")),)), channels=SHARED)
    stage.planned()
    stage.click(who, "approve")
    assert stage.told(who) == refusal
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    stage.submit(who, stage.ask_back(who, "reject"), reason="no")
    assert (stage.told(who), stage.case.state) == (refusal, State.AWAITING_APPROVAL)


def test_help_is_for_everybody_and_names_the_clusters_to_colleagues_alone(workspace: Make) -> None:
    stage = workspace(channels=SHARED)
    assert "Clusters: prod." in stage.typed("Ana", "help")
    for who, channel in (("Gil", CHANNEL), ("Stranger", CHANNEL), ("Ana", "C02RANDOM")):
        told = stage.typed(who, "help", channel)
        assert "`/oom check POD`" in told
        assert "prod" not in told


def test_status_and_history_show_what_may_be_looked_at_from_there(workspace: Make) -> None:
    rules = (ReadRule(channels=(CHANNEL,)), ReadRule(channels=("C02RANDOM",), reach=Reach(namespaces=("web-*",))))
    stage = workspace(replace(POLICY, read=rules))
    stage.typed("Ana", "check llm/chat-old")
    for line in ("status", "history"):
        assert "llm/chat-old" in stage.typed("Ana", line)
        assert "chat" not in stage.typed("Ana", line, "C02RANDOM")
    assert stage.typed("Ana", "status", "C03ALONE").startswith("Refused: nothing may be looked at or approved from this channel")


def test_where_everything_may_be_looked_at_another_channels_cases_are_listed(workspace: Make) -> None:
    stage = workspace(replace(POLICY, read=(ReadRule(channels=(CHANNEL, "C02RANDOM")),)))
    stage.typed("Ana", "check llm/chat-old")
    stage.typed("Ana", "check nothing-of-that-name")
    told = stage.typed("Jo", "status", "C02RANDOM")
    assert ("llm/chat-old" in told, "nothing-of-that-name" in told) == (True, True)


def test_that_changes_are_stopped_is_seen_by_the_whole_channel(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    said = stage.typed("Ana", "freeze")
    assert said == "<@U01ANA> stopped all changes; reading goes on. An approver allows them again with `/oom unfreeze`."
    assert said in [message.shown for message in stage.slack.messages(CHANNEL)]
    stage.click("Wei", "approve")
    assert "冻结了改动" in stage.told("Wei")
    assert stage.typed("Ana", "unfreeze") == "Refused: only an approver turns changes on again."
    assert stage.typed("Jo", "unfreeze") == "<@U02JO> allowed changes again."
    assert stage.last() == "<@U02JO> allowed changes again."
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED


def test_a_mention_that_stops_changes_is_seen_by_all_too(workspace: Make) -> None:
    stage = workspace()
    stage.slack.mention("Ana", CHANNEL, None, "freeze")
    said = stage.until(lambda: [each for each in stage.thread() if "stopped all changes" in each])
    assert said == ["<@U01ANA> stopped all changes; reading goes on. An approver allows them again with `/oom unfreeze`."]


def test_a_slack_that_does_not_say_who_somebody_is_does_not_keep_them_from_stopping_changes(workspace: Make) -> None:
    stage = workspace()
    stage.slack.break_before("users.info", times=20)
    stage.typed("Ana", "freeze")
    assert stage.store.get_flag("frozen") is not None


# ---------------------------------------------------------------- second accounts


def twice(email: str, second: str) -> dict[str, object]:
    """Ana has a second account, an approver's."""
    people = (*(replace(one, email=email) if one.name == "Ana" else one for one in PEOPLE), Member("U07ANA2", "Ana2", email=second))
    return {"people": people, "groups": (Group("S01ONCALL", "gpu-oncall", ("U02JO", "U03WEI", "U07ANA2")),)}


@pytest.mark.parametrize("second", ["ana@example.com", "ANA@Example.com", "ana+bot@example.com"])
def test_who_asked_does_not_approve_with_a_second_account(workspace: Make, second: str) -> None:
    stage = workspace(**twice("ana@example.com", second))
    stage.planned()
    stage.click("Ana2", "approve")
    assert stage.told("Ana2") == "Refused: you asked for the check, so another person must approve."
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED


def test_who_asked_from_an_account_without_an_address_is_told_apart_from_nobody(workspace: Make) -> None:
    stage = workspace(replace(POLICY, identity="email"), **twice("", "ana@example.com"))
    stage.planned()
    for who in ("Ana2", "Wei"):
        stage.click(who, "approve")
    assert stage.told("Ana2").startswith("Refused: Slack gives no e-mail address for <@U01ANA>, who is behind this plan")
    assert "没有提供 <@U01ANA> 的邮箱" in stage.told("Wei")
    assert stage.world.writes == []


def test_where_people_are_known_by_address_two_with_addresses_go_through(workspace: Make) -> None:
    stage = workspace(replace(POLICY, identity="email"))
    stage.planned()
    stage.click("Wei", "approve")
    assert stage.case.state is State.VERIFIED


# ---------------------------------------------------------------- rights that end in between


def regroup(stage: SlackStage, *members: str) -> None:
    stage.slack.workspace.groups["S01ONCALL"] = Group("S01ONCALL", "gpu-oncall", members)


def test_who_left_the_group_a_minute_ago_may_not_approve(workspace: Make) -> None:
    stage = workspace()
    stage.planned()  # the members are known now
    regroup(stage, "U02JO")
    stage.later(seconds=61)
    stage.click("Wei", "approve")
    assert stage.told("Wei") == "已拒绝：你不能审批此方案。可审批：<!subteam^S01ONCALL>。"
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])


def test_who_leaves_between_the_click_and_the_first_write_has_approved_nothing_and_the_thread_says_so(workspace: Make) -> None:
    stage = workspace()
    stage.planned()

    def leaves(name: str) -> None:
        if name == "dry_run":
            regroup(stage, "U02JO")
            stage.clock.forward(seconds=61)

    stage.world.on_call = leaves
    stage.click("Wei", "approve")
    assert (stage.case.state, stage.world.writes) == (State.DIAGNOSED, [])
    assert stage.last() == "The approval by <@U03WEI> does not count any more: they are no approver any more. Nothing was done."
    assert "*Not carried out.* The approval by <@U03WEI> does not count any more: they are no approver any more." in stage.thread()[3]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", sorted(OF_THE_PERSON))
def test_why_an_approval_lapsed_has_its_words(key: str, language: str) -> None:
    assert Messages(str).has_label(f"lapsed_{key}", language)


def test_while_slack_does_not_say_who_is_in_the_group_nobody_approves(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.later(seconds=61)
    stage.slack.break_before("usergroups.users.list", times=99)
    stage.click("Wei", "approve")
    assert (stage.case.state, stage.world.writes) == (State.AWAITING_APPROVAL, [])
    for _ in range(6):  # it is tried again a few times
        stage.later(seconds=20)
    assert stage.told("Wei").startswith("刚才没有成功")
    assert stage.world.writes == []


def test_a_plan_that_nobody_could_approve_is_not_offered_and_says_why(workspace: Make) -> None:
    stage = workspace(replace(POLICY, approvers=(replace(POLICY.approvers[0], count=2),)))  # Jo and Wei
    stage.typed("Ana", "check llm/chat-old")
    stage.click("Jo", "apply")
    assert stage.told("Jo") == "Refused: besides you and whoever asked, 1 of <!subteam^S01ONCALL> could approve, and it takes 2. Let somebody else press, or have approvers added."
    assert (stage.case.state, stage.verbs()) == (State.DIAGNOSED, ["apply", "retry", "apply"])
    stage.click("Ana", "apply")
    assert stage.case.state is State.AWAITING_APPROVAL


def test_while_slack_does_not_say_who_is_in_the_group_a_plan_is_offered_all_the_same(workspace: Make) -> None:
    stage = workspace()
    stage.slack.break_before("usergroups.users.list", times=1)
    stage.planned()
    assert stage.case.state is State.AWAITING_APPROVAL
