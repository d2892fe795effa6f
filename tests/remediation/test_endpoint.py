"""A Databricks serving endpoint is changed like any object: previewed, bound to all of its configuration, sent once, watched, judged, and put back."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.clients.databricks import DatabricksReader, Workspace
from bot.clients.databricks_writer import DatabricksWriter
from bot.errors import Conflict, NotFound, Permanent, Temporary
from bot.evidence.locate import locate, query
from bot.model import Remediation, Rollout, Target, Verdict
from bot.remediation import Changed, differences, digest_of, dry_run, execute_step, judge, observe, plan_undo
from bot.remediation.lives import lives
from bot.remediation.sent import carried_out
from bot.remediation.standing import standing
from bot.sandbox.databricks import Endpoint, FakeDatabricks, entity, serving
from tests.remediation.plans import handed_out, new_id, operation, planned, recommendation
from tests.remediation.shelf import NOW, deployment_shelf
from tests.remediation.test_kept_plans import kept


@dataclass
class Place:
    fake: FakeDatabricks
    reader: DatabricksReader
    writer: DatabricksWriter

    @property
    def there(self) -> Endpoint:
        return self.fake.endpoints["chat"]

    @property
    def target(self) -> Target:
        return locate(query("endpoint/chat"), {"dbx": self.reader})

    def plan(self, remedy: str, direction: str, **fields: Any) -> Remediation:
        return planned(self.reader, recommendation(remedy, direction, None), self.target, **fields)

    def through(self, plan: Remediation) -> Rollout:
        for _ in range(10):
            look = observe(plan, self.reader)
            if look.done or look.stuck:
                return look
        raise AssertionError("the update never ends")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with FakeDatabricks(Endpoint("chat", serving(entity(), entity("chat-2")))) as fake:
        tokens = {}
        for name, token in (("view", fake.view_token), ("manage", fake.manage_token)):
            tokens[name] = tmp_path / name
            tokens[name].write_text(token)
        yield Place(fake, DatabricksReader(Workspace("dbx", fake.url, tokens["view"])), DatabricksWriter(Workspace("dbx", fake.url, tokens["manage"])))


CHANGES = [
    ("workload_size", "raise", "workload_size", "Small", "Medium"),
    ("scale_to_zero", "disable", "scale_to_zero_enabled", True, False),
]


@pytest.mark.parametrize(("remedy", "direction", "field", "before", "after"), CHANGES)
def test_what_was_shown_is_sent_once_verified_and_put_back(place: Place, remedy: str, direction: str, field: str, before: Any, after: Any) -> None:
    plan = place.plan(remedy, direction)
    assert f"- {field}: {str(before).lower() if isinstance(before, bool) else before}" in plan.diff
    assert f"+ {field}: {str(after).lower() if isinstance(after, bool) else after}" in plan.diff
    assert kept(plan).digest == plan.digest == digest_of(plan)
    dry_run(plan, place.writer)
    assert place.there.puts == []
    place.there.settles = 5
    execute_step(kept(plan), 0, "o-1", place.writer)
    execute_step(plan, 0, "o-1", place.writer)
    assert len(place.there.puts) == 1
    assert not observe(plan, place.reader).done
    look = place.through(plan)
    assert place.there.config is not None
    assert place.there.config["served_entities"][0][field] == after
    assert judge(plan, None, None, look, NOW).verdict is Verdict.VERIFIED
    done = dataclasses.replace(operation(plan, "o-1"), next_step=1)
    assert standing(done, place.reader) == ()
    back = plan_undo(done, place.reader, new_id=new_id)
    dry_run(back, place.writer)
    execute_step(back, 0, "o-2", place.writer)
    assert judge(back, None, None, place.through(back), NOW).verdict is Verdict.UNDONE
    assert place.reader.get("", "ServingEndpoint", "", "chat")["spec"]["served_entities"] == [entity(), entity("chat-2")]
    assert place.there.config["served_entities"][0]["environment_vars"]["OOMBOT_OPERATION"] == "5:o-2"


def test_a_variable_is_added_beside_the_others_and_taken_away_again(place: Place) -> None:
    plan = place.plan("expandable_segments", "enable")
    assert "PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True" in plan.diff
    assert "{{secrets" not in plan.diff
    assert "/tmp/hf" not in plan.diff
    execute_step(plan, 0, "o-1", place.writer)
    place.through(plan)
    assert place.there.puts[0]["served_entities"][0]["environment_vars"] == {
        "HF_HOME": "/tmp/hf", "API_TOKEN": "{{secrets/llm/token}}", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "OOMBOT_OPERATION": "4:o-1",
    }  # fmt: skip
    back = plan_undo(operation(plan, "o-1"), place.reader, new_id=new_id)
    execute_step(back, 0, "o-2", place.writer)
    assert "PYTORCH_CUDA_ALLOC_CONF" not in place.there.puts[1]["served_entities"][0]["environment_vars"]


def test_the_first_variable_of_all_can_be_taken_away_again(tmp_path: Path, place: Place) -> None:
    place.there.config = serving(entity(environment_vars=None))
    plan = place.plan("cudagraph_estimate", "disable")
    execute_step(plan, 0, "o-1", place.writer)
    place.through(plan)
    back = plan_undo(operation(plan, "o-1"), place.reader, new_id=new_id)
    execute_step(back, 0, "o-2", place.writer)
    assert place.there.puts[1]["served_entities"][0]["environment_vars"] == {"OOMBOT_OPERATION": "5:o-2"}


def test_the_preview_says_that_there_is_no_dry_run_and_what_goes_on_serving(place: Place) -> None:
    said = " ".join(note.en for note in place.plan("workload_size", "raise").notes)
    assert "no dry run" in said
    assert "version 3 goes on serving" in said
    assert "Medium costs more than Small" in said


def test_a_secret_of_the_endpoint_is_not_kept_with_the_plan(place: Place) -> None:
    plain = entity(environment_vars={"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz012345", "MINE": "s3cr3t-value"})
    place.there.config = serving(plain)
    plan = place.plan("workload_size", "raise")
    assert "hf_abc" not in repr(plan)
    assert "s3cr3t-value" not in repr(plan)
    execute_step(plan, 0, "o-1", place.writer)
    assert place.there.puts[0]["served_entities"][0]["environment_vars"]["MINE"] == "s3cr3t-value"


@pytest.mark.parametrize("what", ["same field", "another field", "another entity"])
def test_a_change_after_the_preview_voids_it_and_is_shown(place: Place, what: str) -> None:
    plan = place.plan("workload_size", "raise")
    changed = {
        "same field": [entity(workload_size="Large"), entity("chat-2")],
        "another field": [entity(entity_version="2"), entity("chat-2")],
        "another entity": [entity(), entity("chat-2", workload_size="Large")],
    }[what]
    place.there.config = serving(*changed, version=4)
    [one] = differences(plan, place.reader)
    assert one.path == ("/spec/served_entities/0/workload_size" if what == "same field" else "/spec")
    with pytest.raises(Changed):
        execute_step(plan, 0, "o-1", place.writer)
    assert place.there.puts == []


def test_an_endpoint_made_again_under_the_same_name_is_refused(place: Place) -> None:
    plan = place.plan("workload_size", "raise")
    place.there.id = "another"
    with pytest.raises(Changed, match="uid"):
        execute_step(plan, 0, "o-1", place.writer)


def test_an_update_of_somebody_else_that_is_under_way_is_not_overwritten(place: Place) -> None:
    plan = place.plan("workload_size", "raise")
    place.there.settles = 100
    place.there.begin({"served_entities": [entity(), entity("chat-2")]})
    with pytest.raises(Conflict, match="under way"):
        dry_run(plan, place.writer)
    with pytest.raises(Conflict, match="under way"):
        execute_step(plan, 0, "o-1", place.writer)


def test_an_update_that_begins_between_the_look_and_the_request_is_refused_by_the_workspace(place: Place) -> None:
    plan = place.plan("workload_size", "raise")
    put = place.writer._workspace.put
    place.there.settles = 100

    def late(path: str, body: Any) -> Any:
        place.there.begin({"served_entities": [entity(workload_size="Large"), entity("chat-2")]})
        return put(path, body)

    place.writer._workspace.put = late  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        execute_step(plan, 0, "o-1", place.writer)
    assert place.there.puts == []


def test_an_answer_that_was_lost_is_known_by_the_mark_and_nothing_is_sent_twice(place: Place) -> None:
    plan = place.plan("workload_size", "raise")
    put = place.writer._workspace.put

    def lost(path: str, body: Any) -> Any:
        put(path, body)
        raise Temporary("dbx: the answer was lost")

    place.writer._workspace.put = lost  # type: ignore[method-assign]
    with pytest.raises(Temporary):
        execute_step(plan, 0, "o-1", place.writer)
    execute_step(plan, 0, "o-1", place.writer)
    assert len(place.there.puts) == 1
    half = dataclasses.replace(operation(plan, "o-1"), next_step=0, sending=0)
    assert carried_out(half, place.reader).next_step == 1 or len(carried_out(half, place.reader).remediation.steps) == 1


def test_an_update_that_fails_is_stuck_with_the_platforms_words_and_can_be_undone(place: Place) -> None:
    place.there.fits = lambda config: "no room" if config["served_entities"][0]["workload_size"] == "Medium" else ""
    plan = place.plan("workload_size", "raise")
    execute_step(plan, 0, "o-1", place.writer)
    look = place.through(plan)
    assert (look.done, look.stuck) == (False, "update_failed")
    assert "no room" in look.detail
    assert judge(plan, None, None, look, NOW).verdict is Verdict.FAILED
    assert lives(plan, (), place.reader)[0].failed
    back = plan_undo(operation(plan, "o-1"), place.reader, new_id=new_id)
    execute_step(back, 0, "o-2", place.writer)
    assert place.through(back).done
    assert not lives(back, (), place.reader)[0].failed


def test_an_undo_over_somebodys_later_change_shows_all_three(place: Place) -> None:
    plan = place.plan("workload_size", "raise")
    execute_step(plan, 0, "o-1", place.writer)
    place.through(plan)
    place.there.config = serving(entity(workload_size="Large"), entity("chat-2"), version=7)
    with pytest.raises(Changed) as changed:
        plan_undo(operation(plan, "o-1"), place.reader, new_id=new_id)
    [one] = changed.value.differences
    assert (one.path, plan.before[one.path], one.before, one.now) == ("/spec/served_entities/0/workload_size", "Small", "Medium", "Large")
    assert [found.now for found in standing(dataclasses.replace(operation(plan, "o-1"), next_step=1), place.reader)] == ["Large"]


@pytest.mark.parametrize(
    ("remedy", "direction", "fields", "words"),
    [
        ("gpu_memory_utilization", "lower", {}, "come with the workload_type"),
        ("bigger_gpu", "", {}, "come with the workload_type"),
        ("restart", "", {}, "come with the workload_type"),
        ("workload_size", "raise", {"workload_size": "Large"}, "the largest size"),
        ("workload_size", "raise", {"workload_size": None, "min_provisioned_concurrency": 4}, "has no workload_size"),
        ("scale_to_zero", "disable", {"scale_to_zero_enabled": False}, "false already"),
        ("expandable_segments", "enable", {"environment_vars": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}, "already says"),
        ("expandable_segments", "enable", {"environment_vars": {"PYTORCH_CUDA_ALLOC_CONF": "{{secrets/a/b}}"}}, "comes from a Databricks secret"),
    ],
)
def test_what_is_not_written_is_handed_out(place: Place, remedy: str, direction: str, fields: dict[str, Any], words: str) -> None:
    place.there.config = serving(entity(**fields))
    found = handed_out(place.reader, recommendation(remedy, direction, 0.8 if remedy == "gpu_memory_utilization" else None), place.target)
    assert words in found.reason.en


def test_a_handout_is_for_the_endpoint_at_hand_and_shows_no_secret(place: Place) -> None:
    found = handed_out(place.reader, recommendation("bigger_gpu", "", None), place.target)
    for part in ("serving-endpoints/chat/config", '"workload_type": "GPU_SMALL"', "task: llm/v1/completions", "HF_HOME", "MAX_JOBS", 'device_map="auto"', "low_cpu_mem_usage"):
        assert part in found.paste
    assert "secrets/" not in found.paste


def test_an_entity_that_is_not_served_any_more_is_not_guessed(place: Place) -> None:
    target = place.target
    place.there.config = serving(entity("other"))
    with pytest.raises(Permanent, match="serves no chat-1 any more"):
        planned(place.reader, recommendation("workload_size", "raise", None), target)
    place.there.config = serving(entity(entity_name=None))
    with pytest.raises(Permanent, match="older form"):
        planned(place.reader, recommendation("workload_size", "raise", None), target)
    place.there.id = "another"
    with pytest.raises(NotFound, match="made anew"):
        planned(place.reader, recommendation("workload_size", "raise", None), target)


@pytest.mark.parametrize(("remedy", "direction"), [("workload_size", "raise"), ("scale_to_zero", "disable")])
def test_on_a_cluster_they_are_none_of_the_bots_business(remedy: str, direction: str) -> None:
    assert "Databricks serving endpoint" in handed_out(deployment_shelf(), recommendation(remedy, direction, None)).reason.en
