"""The grammar of /oom: what people mean is understood in spite of what chat clients make of it, and each mistake gets one line with the right form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import BadInput
from handlers.command_line import Command, Misunderstood, parse


def target(text: str) -> tuple[str, str | None, str | None, str | None]:
    query = parse(text).query
    assert query is not None
    return query.name, query.namespace, query.cluster, query.container


@pytest.mark.parametrize(
    "text",
    [
        "check pod-x -n llm --cluster east --container server",
        "check -n llm --cluster east --container server pod-x",
        "check llm/pod-x --cluster=east -c server",
        "check\u00a0pod-x\u00a0-n llm\u00a0—cluster east —container server",
        "check `pod-x` -n `llm` --cluster “east” --container ‘server’",
        "check pod-x –n llm ––cluster east ––container server",
        "check <http://pod-x|pod-x> -n llm --cluster east --container server",
        "CHECK pod-x --namespace=llm --cluster east --container server",
        "ｃｈｅｃｋ　pod-x －n llm --cluster east --container server",
        "  check   pod-x  -n llm\n--cluster east\u200b --container server ",
    ],
)
def test_the_same_target_however_it_is_typed(text: str) -> None:
    assert target(text) == ("pod-x", "llm", "east", "server")


def test_links_that_slack_made_of_names_are_names_again() -> None:
    assert target("check <http://pod.name.com|pod.name.com>")[0] == "pod.name.com"
    assert target("check <http://pod.name.com>")[0] == "pod.name.com"


def test_nothing_typed_means_help() -> None:
    assert parse("") == parse("  \u00a0 ") == Command("help")


@pytest.mark.parametrize("verb", ["help", "status", "freeze", "unfreeze"])
def test_simple_verbs(verb: str) -> None:
    assert parse(verb) == Command(verb)


def test_history_takes_a_count() -> None:
    assert (parse("history").count, parse("history 3").count) == (10, 3)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("pod-x", 'No command "pod-x"; to look at it: check pod-x'),
        ("chekc pod-x", 'No command "chekc"; did you mean: check'),
        ("dance", 'No command "dance"; one of: check, help, status, history, freeze, unfreeze'),
        ("check", "check what? The form is: check POD [-n NAMESPACE] [--cluster NAME] [--container NAME]"),
        ("check -n llm", "check what? The form is: check POD"),
        ("check a b", 'One word too many: "b"; the form is: check POD'),
        ("check a --colour red", 'No option "--colour"; the options are -n NAMESPACE, --cluster NAME, --container NAME'),
        ("check a -n", "-n needs a value, as in: check POD -n NAMESPACE"),
        ("check a -n --cluster x", "-n needs a value"),
        ("check a -n x -n y", "-n is given twice; once is enough"),
        ("check a;rm", '"a;rm" cannot be the name of a target'),
        ("check a -n $(id)", '"$(id)" cannot be the name of a namespace'),
        ("history 0", '"0" is no number from 1 to 50; the form is: history 10'),
        ("history ٣", "is no number from 1 to 50"),
        ("freeze now", 'One word too many: "now"; the form is: freeze'),
        ("check " + "x" * 1000, "longer than 1000 characters"),
        ("check <!channel>", "cannot be the name of a target"),
    ],
)
def test_a_mistake_gets_one_line_with_the_right_form(text: str, line: str) -> None:
    with pytest.raises(Misunderstood) as wrong:
        parse(text)
    assert line in str(wrong.value)
    assert "\n" not in str(wrong.value)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_whatever_is_typed_is_understood_or_refused_in_one_line(text: str) -> None:
    for line in (text, f"check {text}", f"history {text}"):
        assert "\n" not in answer(line)


def answer(line: str) -> str:
    try:
        return parse(line).verb
    except BadInput as wrong:
        return str(wrong)


def test_a_serving_endpoint_is_named_like_a_workload() -> None:
    wanted = parse("check endpoint/my_chat-1 --cluster dbx --container chat-2").query
    assert wanted is not None
    assert (wanted.kind, wanted.workload_kind, wanted.name, wanted.namespace, wanted.cluster, wanted.container) == (
        "workload", "ServingEndpoint", "my_chat-1", None, "dbx", "chat-2",
    )  # fmt: skip
    with pytest.raises(BadInput, match="in no namespace"):
        parse("check endpoint/chat -n llm")
