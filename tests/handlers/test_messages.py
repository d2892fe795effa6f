"""Names and labels are read without a template engine, and are what the engine would read."""

import subprocess
import sys

import pytest
from jinja2 import Environment

from handlers.messages import LANGUAGES, Messages, constants_of, folder


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["labels", "causes", "remedies"])
def test_constants_are_what_the_engine_reads(language: str, name: str) -> None:
    source = (folder() / language / f"{name}.j2").read_text()
    constants = constants_of(source)
    assert constants is not None
    module = vars(Environment(autoescape=False).from_string(source).module)
    assert {key: module[key] for key in constants} == constants
    assert source.count("{% set ") == len(constants)


@pytest.mark.parametrize("source", ["{% set a = 1 %}{{ b }}", "{% set a = b %}", "{% if x %}{% set a = 1 %}{% endif %}", "{% set a = __import__('os') %}"])
def test_what_is_more_than_constants_is_left_to_the_engine(source: str) -> None:
    assert constants_of(source) is None


def test_an_unknown_name_or_language_is_still_said() -> None:
    messages = Messages(str)
    assert messages.remedy("buy:luck", "en") == "buy: luck"
    assert messages.cause("gpu_oom", "xx") == messages.cause("gpu_oom", "en")


def test_a_diagnosis_needs_no_template_engine() -> None:
    code = "import sys, bot.terminal.text, bot.incident; from handlers.messages import of_the_bot; of_the_bot(str).remedy('x', 'zh'); sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
