"""Words for people: both languages say the same things with the same parameters, every key that the code uses has a message, and every message renders."""

import ast
import re
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment, UndefinedError, meta

from bot.diagnosis.causes import FAMILIES
from bot.model import State, StepKind, Verdict
from handlers.messages import LANGUAGES, Messages, Trusted, folder
from handlers.slack import kit

ROOT = Path(__file__).parent.parent.parent
KEYS = sorted(path.stem for path in (folder() / "en").glob("*.j2") if path.stem not in ("labels", "causes", "remedies"))
CATALOGUE = Messages(kit.escape)


def parameters(language: str, key: str) -> set[str]:
    return meta.find_undeclared_variables(Environment().parse((folder() / language / f"{key}.j2").read_text()))


def module(language: str, name: str) -> dict[str, object]:
    return dict(CATALOGUE._module(language, name))


def test_both_languages_have_the_same_messages() -> None:
    names = [{path.name for path in (folder() / language).iterdir()} for language in LANGUAGES]
    assert names[0] == names[1]


@pytest.mark.parametrize("key", KEYS)
def test_both_languages_use_the_same_parameters(key: str) -> None:
    assert parameters("en", key) == parameters("zh", key)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", KEYS)
def test_every_message_renders_escaped(key: str, language: str) -> None:
    text = CATALOGUE.say(key, language, **dict.fromkeys(parameters(language, key), "a <!channel> `b`"))
    assert text
    assert "<!channel>" not in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", KEYS)
def test_no_message_has_markup_of_its_own_that_slack_could_take_for_a_mention(key: str, language: str) -> None:
    assert not re.search(r"<[^%]", (folder() / language / f"{key}.j2").read_text())


def test_a_parameter_that_is_missing_is_a_mistake_and_not_a_hole() -> None:
    with pytest.raises(UndefinedError, match="'who' is undefined"):
        CATALOGUE.say("not_approver", "en")


def test_labels_causes_and_remedies_have_the_same_names_in_both_languages() -> None:
    assert module("en", "labels").keys() == module("zh", "labels").keys()
    for name in ("causes", "remedies"):
        assert module("en", name)["names"].keys() == module("zh", name)["names"].keys()  # type: ignore[attr-defined]


def test_every_cause_has_a_name() -> None:
    assert {cause for causes in FAMILIES.values() for cause in causes} <= set(module("en", "causes")["names"])  # type: ignore[call-overload]


def test_every_remedy_has_a_name() -> None:
    known = yaml.safe_load((ROOT / "playbooks" / "remedies.yaml").read_text())
    assert set(known) - set(module("en", "remedies")["names"]) == set()  # type: ignore[call-overload]


def test_every_state_verdict_and_step_has_a_label() -> None:
    labels = module("en", "labels")
    wanted = [*(f"state_{each.value}" for each in State), *(f"verdict_{each.value}" for each in Verdict), *(f"step_{each.value}" for each in StepKind)]
    assert [each for each in wanted if each not in labels] == []


def used() -> dict[str, set[str]]:
    """Keys that the code gives to Words, Refused, Misunderstood or `say`, with the names of their parameters where they stand there."""
    found: dict[str, set[str]] = {}
    for path in [*(ROOT / "bot").rglob("*.py"), *(ROOT / "handlers").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            place = {"Words": 0, "Refused": 0, "Misunderstood": 0}.get(name)
            if name == "say" and "handlers" in path.parts:
                place = 1 if "actor" in ast.unparse(node.args[0]) else 0
            for argument in [node.args[place]] if place is not None and len(node.args) > place else []:
                for key in literals(argument):
                    given = node.args[1].keys if len(node.args) > 1 and isinstance(node.args[1], ast.Dict) else []
                    names = {key.value for key in given if isinstance(key, ast.Constant)} | {word.arg for word in node.keywords if word.arg}
                    found.setdefault(key, set()).update(map(str, names))
    return found


def literals(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return literals(node.body) + literals(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_every_key_that_the_code_uses_has_a_message() -> None:
    assert sorted(set(used()) - set(KEYS)) == []
    assert {"not_approver", "top_summary", "input_no_target", "target_not_found"} <= set(used())


EVERYWHERE = {"command"}  # handlers/slack/wording.py gives it with every message


def test_no_message_needs_what_the_code_does_not_give() -> None:
    short = {key: parameters("en", key) - given - EVERYWHERE for key, given in used().items() if key in KEYS and given}
    assert {key: names for key, names in short.items() if names} == {}


def test_the_keys_that_the_policy_and_the_use_cases_list_have_messages() -> None:
    for path in (ROOT / "bot" / "policy.py", ROOT / "bot" / "cases" / "__init__.py"):
        documented = (ast.get_docstring(ast.parse(path.read_text()), clean=False) or "").partition("Keys of ")[2]
        rows = re.findall(r"^ {4,18}(?:(?:who asks|where|what|hour|approval|switch) +)?((?:[a-z_]+, )*[a-z_]+)(?= )", documented, re.M)
        listed = [key for row in rows for key in row.split(", ")]
        assert len(listed) > 10
        assert [key for key in listed if key not in KEYS] == []


def test_a_key_without_a_message_is_said_plainly() -> None:
    assert CATALOGUE.say("no_such_key", "en", who="<U1>") == "no such key (who: &lt;U1&gt;)"


def test_a_language_that_we_do_not_speak_gets_english() -> None:
    assert CATALOGUE.say("guest", "fr") == CATALOGUE.say("guest", "en")


def test_what_we_made_ourselves_is_not_escaped_and_what_came_from_outside_is() -> None:
    assert CATALOGUE.say("rejected", "en", who=Trusted("<@U1>"), reason="<@U2>") == "Rejected by <@U1>: &lt;@U2&gt;"
