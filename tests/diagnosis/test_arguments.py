"""Options of a server as its own log prints them."""

from io import BytesIO

import pytest

from bot.diagnosis.arguments import facts_of
from bot.logs.events import events
from bot.playbooks import load

KNOWLEDGE = load()


def options(line: str) -> dict[str, object]:
    scan = KNOWLEDGE.scanner.scan(BytesIO(line.encode()))
    return {fact.name: fact.value for event in events(scan.hits, "container.log") for fact in facts_of(event)}


@pytest.mark.parametrize("prefix", ["INFO 03-09 01:17:36 [utils.py:233] ", "(APIServer pid=7) INFO 03-09 01:17:36 [api_utils.py:273] "])
def test_a_short_dictionary_of_arguments_is_read_option_by_option(prefix: str) -> None:
    found = options(prefix + "non-default args: {'model': '/models/m', 'kv_cache_memory_bytes': 40607249408, 'gpu_memory_utilization': 0.85}")
    assert found == {"engine.model": "/models/m", "engine.kv_cache_memory_bytes": 40607249408, "engine.gpu_memory_utilization": 0.85}


def test_a_dictionary_inside_is_one_value_and_its_words_are_no_options() -> None:
    found = options("INFO 03-09 01:17:36 [utils.py:233] non-default args: {'speculative_config': {'model': '/models/draft'}, 'max_model_len': 8192}")
    assert found["engine.max_model_len"] == 8192
    assert "engine.model" not in found


def test_the_namespace_of_older_releases_is_read() -> None:
    found = options("INFO 03-09 01:17:36 api_server.py:1] args: Namespace(host=None, model='/models/m', swap_space=4, max_model_len=None, enforce_eager=True)")
    assert found["engine.enforce_eager"] is True
    assert found["engine.swap_space"] == 4.0
    assert "engine.max_model_len" not in found
