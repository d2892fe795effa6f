"""What is done about it: one file an action (preview, the writes, what must hold afterwards, the undo). Only this package and `bot/app.py` see a writing client.

    plan(recommendation or "restart", target, reader, now=..., new_id=...)  -> Remediation | Handout      reads
    plan_undo(operation, reader, new_id=...)                                -> Remediation, or raises Changed   reads
    differences(remediation, reader or writer)                              -> what moved since the preview, and by whom
    digest_of(remediation)                                                  -> must equal `remediation.digest`, else the plan was altered
    dry_run(remediation, writer)                                            -> every step as a server-side dry run
    execute_step(remediation, index, operation id, writer)                  -> one step, once; call again after Temporary or a crash
    pods_there(remediation, reader)                                         -> the UIDs of the pods, right before the first step
    observe(remediation, reader, those UIDs)                                -> Rollout, one look
    judge(remediation, before, after, rollout, now)                         -> Outcome, pure

Steps run in order. One with `after_rollout` runs when the rollout of those before it is done; sooner it raises Temporary and nothing is sent.
A remediation whose `before` is empty (a plain restart) has no undo: no Undo button, and plan_undo raises BadInput.
Its `object` bears the operation's id in the annotation `oombot.io/operation` ("<id>", or "<id>/<index>" once a later patch step is done).
"""

from bot.remediation.bound import OPERATION, Changed, differences
from bot.remediation.canonical import digest_of
from bot.remediation.execute import dry_run, execute_step
from bot.remediation.judge import judge
from bot.remediation.observe import observe, pods_there
from bot.remediation.plan import plan
from bot.remediation.undo import plan_undo

__all__ = ["OPERATION", "Changed", "differences", "digest_of", "dry_run", "execute_step", "judge", "observe", "plan", "plan_undo", "pods_there"]
