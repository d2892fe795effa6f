"""The trail of a whole journey: who asked, approved and was refused what, and no secret, wherever one stood."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bot.errors import Rejected, Temporary, TimedOut, Unreachable
from bot.model import Difference, Outcome, Remediation, Rollout, Text, Verdict
from tests.walk.slack_stage import SlackStage
from tests.walk.test_thread import Changed
from tests.walk.world import SmallWorld

Make = Callable[..., SlackStage]
HF = "hf_" + "Zx81kQp0" * 4
SLACK = "xoxb-" + "123456789012-" * 2 + "q7Wd81LmZp0aTn4c"
BEARER = "Authorization: Bearer " + "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiI0MiJ9." + "c2lnbmF0dXJlLWhlcmU"
SECRETS = (HF, SLACK.partition("-")[2], BEARER.partition("Bearer ")[2], "correct-horse-battery")


class Leaking(SmallWorld):
    """Secrets in the arguments, the environment, names, the cluster's words and the log of the new process."""

    def _plan(self, plan_id: str, direction: str, to: int) -> Remediation:
        made = super()._plan(plan_id, direction, to)
        value = {"name": "HF_API_KEY", "value": "correct-horse-battery"}
        patch = (*made.steps[0].patch, {"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": value})
        diff = f"  args:\n-   - --api-key={HF}\n+   - --hf-token={HF}\n+   - DB_PASSWORD=correct-horse-battery\n"
        return replace(made, steps=(replace(made.steps[0], patch=patch),), diff=diff, notes=(Text(f"Reads {BEARER}."),))

    def judge(self, *given: object, **named: object) -> Outcome:
        return Outcome(Verdict.VERIFIED, Text(f"started with --api-key {HF} and {SLACK}"), super().judge(*given, **named).at)  # type: ignore[arg-type]


def trail_of(stage: SlackStage) -> str:
    assert stage.audit.verify() == []
    return stage.audit.path.read_text()


def test_no_secret_gets_into_the_trail_wherever_it_stood(workspace: Make) -> None:
    stage = workspace(world=Leaking(rollout=Rollout(1, 1, 1, True, detail=SLACK, new_pods=("chat-new",))))
    stage.typed("Ana", f"check {HF}")
    stage.planned()
    stage.submit("Wei", stage.ask_back("Wei", "reject"), reason=f"the log shows {SLACK} and {BEARER}")
    stage.click("Jo", "apply")
    stage.world.fail["differences"] = [Changed(Difference("/spec/template/spec/containers/0/args/3", f"--api-key={HF}", BEARER, SLACK))]
    stage.click("Wei", "approve")
    stage.click("Jo", "apply")
    stage.world.fail["dry_run"] = [Rejected(f"denied: {BEARER}")]
    stage.click("Wei", "approve")
    stage.click("Jo", "apply")
    stage.click("Wei", "approve")
    told = trail_of(stage)
    assert [secret for secret in SECRETS if secret in told] == []
    assert {"asked", "rejected", "void", "planned", "sent", "outcome"} <= {entry["event"]["what"] for entry in stage.audit.entries()}


def test_a_refusal_is_kept_with_the_button_that_was_pressed(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.click("Jo", "approve")
    refused = next(entry["event"] for entry in stage.audit.entries() if entry["event"]["what"] == "refused")
    assert (refused["who"], refused["verb"], refused["key"]) == ("U02JO", "approve", "second_person_applied")


def test_all_that_was_shown_is_kept_with_the_plan(workspace: Make) -> None:
    stage = workspace(world=Leaking())
    stage.planned()
    planned = next(entry["event"] for entry in stage.audit.entries() if entry["event"]["what"] == "planned")
    assert planned["notes"] == ["Reads Authorization: Bearer [redacted]."]
    assert planned["until"] == stage.case.operation.expires_at.isoformat()  # type: ignore[union-attr]


def test_who_was_refused_the_kill_switch_is_kept(workspace: Make) -> None:
    stage = workspace()
    stage.typed("Gil", "freeze")
    stage.typed("Ana", "freeze")
    stage.typed("Ana", "unfreeze")
    kept = [(entry["event"]["what"], entry["event"]["who"], entry["event"].get("key", "")) for entry in stage.audit.entries()]
    assert kept == [("refused", "slack:U04GIL", "guest"), ("frozen", "slack:U01ANA", ""), ("refused", "slack:U01ANA", "not_unfreezer")]


def events(stage: SlackStage, what: str) -> list[dict[str, Any]]:
    return [entry["event"] for entry in stage.audit.entries() if entry["event"]["what"] == what]


def test_a_write_is_kept_with_what_came_back(workspace: Make) -> None:
    stage = workspace(world=SmallWorld(rollout=Rollout(1, 1, 1, True, new_pods=("chat-new",))))
    stage.planned()
    stage.click("Wei", "approve")
    (sent,) = events(stage, "sent")
    kept = {name: sent[name] for name in ("object", "uid", "resourceVersion", "generation")}
    assert kept == {"object": "Deployment llm/chat", "uid": "uid-1", "resourceVersion": "800", "generation": 2}


def test_a_refused_write_is_kept_with_the_servers_answer_short_and_without_its_secrets(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    words = f'admission webhook "guard.example" denied the request: --api-key={HF} ' + "x" * 4000
    stage.world.fail["execute_step"] = [Rejected(f"prod: {words}").answered(422, "Invalid", words)]
    stage.click("Wei", "approve")
    (refused,) = events(stage, "not_carried_out")
    assert (refused["answer"]["status"], refused["answer"]["reason"]) == (422, "Invalid")
    assert refused["answer"]["message"].startswith('admission webhook "guard.example" denied the request')
    assert len(refused["answer"]["message"]) <= 420
    assert HF not in trail_of(stage)


def test_a_refusal_that_no_server_gave_has_no_answer(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.world.fail["execute_step"] = [Rejected("not this object")]
    stage.click("Wei", "approve")
    (refused,) = events(stage, "not_carried_out")
    assert "answer" not in refused


def test_a_write_that_ended_in_a_temporary_error_is_kept_before_it_is_tried_again(workspace: Make) -> None:
    stage = workspace()
    stage.planned()
    stage.world.fail["execute_step"] = [TimedOut("no answer in time"), Temporary(f"busy --api-key={HF}").answered(429, "TooManyRequests", f"busy --api-key={HF}")]
    stage.world.fail["after_write"] = [Unreachable("the connection broke")]
    stage.click("Wei", "approve")
    for _ in range(3):
        stage.later(seconds=10)
    kept = [(entry["event"]["what"], entry["event"].get("answer", {}).get("status"), entry["event"].get("recognised")) for entry in stage.audit.entries()]
    told = [one for one in kept if one[0] in ("sends", "try_failed", "sent")]
    assert told == [*(("sends", None, None), ("try_failed", None, None)), *(("sends", None, None), ("try_failed", 429, None)), *(("sends", None, None), ("try_failed", None, None)),
                    ("sends", None, None), ("sent", None, True)]  # fmt: skip
    assert [one["reason"] for one in events(stage, "try_failed")][::2] == ["no answer in time", "the connection broke"]
    assert HF not in trail_of(stage)
