"""SlackPeople fails closed: when Slack does not say who somebody is, nobody gets anything."""

import pytest

from bot.errors import NotFound, Permanent, Refused, Temporary
from bot.model import Words
from bot.policy import Policy
from bot.sandbox.slack import TEAM, FakeSlack
from handlers.slack import wording
from handlers.slack.chat import client
from handlers.slack.people import SlackPeople


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def people(slack: FakeSlack, time: Time) -> SlackPeople:
    return SlackPeople(client(slack.bot_token, slack.api_url), TEAM, now=time)


def test_a_colleague_is_none_of_the_refused_kinds(people: SlackPeople) -> None:
    ana = people.person("U01ANA")
    assert (ana.is_bot, ana.is_guest, ana.is_stranger, ana.is_deleted, ana.email) == (False, False, False, False, "ana@example.com")


@pytest.mark.parametrize(("person", "kind"), [("U04GIL", "is_guest"), ("U05STRANGER", "is_stranger"), ("U06ROBOT", "is_bot")])
def test_guests_strangers_and_bots_are_known_as_such(people: SlackPeople, person: str, kind: str) -> None:
    assert getattr(people.person(person), kind)


def test_without_a_home_everybody_is_a_stranger(slack: FakeSlack) -> None:
    assert SlackPeople(client(slack.bot_token, slack.api_url), "").person("U01ANA").is_stranger


def test_who_slack_does_not_know_is_an_error(people: SlackPeople) -> None:
    with pytest.raises(NotFound, match="user_not_found"):
        people.person("U99NOBODY")


def test_the_language_is_that_of_their_slack(people: SlackPeople) -> None:
    assert people.person("U03WEI").language == "zh"
    assert people.language("U03WEI") == "zh"


def test_a_language_that_slack_does_not_say_is_english(people: SlackPeople, slack: FakeSlack) -> None:
    slack.break_before("users.info")
    assert people.language("U03WEI") == "en"
    assert people.language("U03WEI") == "zh"


def test_an_old_language_is_good_enough(people: SlackPeople, slack: FakeSlack, time: Time) -> None:
    people.person("U03WEI")
    time.now = 3600.0
    slack.break_before("users.info")
    assert people.language("U03WEI") == "zh"
    assert len(slack.calls("users.info")) == 1


def test_members_of_a_group(people: SlackPeople) -> None:
    assert people.members("S01ONCALL") == {"U02JO", "U03WEI"}


def test_an_unknown_group_is_an_error_and_not_an_empty_group(people: SlackPeople) -> None:
    with pytest.raises(Permanent, match="no_such_subteam"):
        people.members("S99NONE")


def test_answers_are_kept_for_a_minute_and_no_longer(people: SlackPeople, slack: FakeSlack, time: Time) -> None:
    people.members("S01ONCALL")
    time.now = 59.0
    people.members("S01ONCALL")
    assert len(slack.calls("usergroups.users.list")) == 1
    time.now = 60.0
    people.members("S01ONCALL")
    assert len(slack.calls("usergroups.users.list")) == 2


def test_a_longer_cache_cannot_be_configured(slack: FakeSlack, time: Time) -> None:
    people = SlackPeople(client(slack.bot_token, slack.api_url), TEAM, kept_s=3600, now=time)
    people.person("U01ANA")
    time.now = 61.0
    people.person("U01ANA")
    assert len(slack.calls("users.info")) == 2


def test_an_old_answer_does_not_stand_in_for_a_failing_slack(people: SlackPeople, slack: FakeSlack, time: Time) -> None:
    people.members("S01ONCALL")
    time.now = 61.0
    slack.break_before("usergroups.users.list")
    with pytest.raises(Temporary):
        people.members("S01ONCALL")


@pytest.mark.parametrize(
    ("person", "line"),
    [
        ("U04GIL", "Refused: guests may not use oombot."),
        ("U05STRANGER", "Refused: people of another organisation may not use oombot."),
        ("U06ROBOT", "Refused: bots may not use oombot."),
    ],
)
def test_who_is_refused_is_told_so_in_one_line(people: SlackPeople, person: str, line: str) -> None:
    with pytest.raises(Refused) as refused:
        Policy.check_person(people.person(person))
    assert wording.say(Words(refused.value.key, refused.value.parameters), "en") == line
