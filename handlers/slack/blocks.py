"""A Case as Slack messages: one pure function for every purpose, state and language.

    top                    progress in place, then the summary with state and buttons
    evidence               quoted lines, memory ledger, gaps
    recommendation         what to change, what will not help
    plan:<remediation id>  the preview and its approval
    outcome:<operation id> rollout, verdict, undo
    note:<n>               a refusal, a patch to paste, what somebody else changed
"""

from bot.model import Case
from handlers.slack import diagnosis_blocks, kit, plan_blocks
from handlers.slack.kit import Block
from handlers.slack.page import Page


def message(case: Case, purpose: str, language: str, approvers: tuple[str, ...] = (), *, second_person: bool = True, command: str = "/oom") -> tuple[str, list[Block]]:
    """The fallback text (for notifications) and the blocks. `approvers`: ids of groups and people who may approve. Raises ValueError for an unknown purpose."""
    page = Page(case, language, approvers, second_person, command)
    kind, _, name = purpose.partition(":")
    if kind == "top":
        blocks = diagnosis_blocks.top(page)
    elif kind == "evidence":
        blocks = diagnosis_blocks.evidence(page)
    elif kind == "recommendation":
        blocks = diagnosis_blocks.recommendation(page)
    elif kind == "plan":
        blocks = plan_blocks.plan(page, name)
    elif kind == "outcome":
        blocks = plan_blocks.outcome(page, name)
    elif kind == "note":
        blocks = plan_blocks.note(page)
    else:
        raise ValueError(f"no message for the purpose {purpose!r}")
    fitted = kit.fit(blocks, page.label("left_out"))
    return fallback(fitted), fitted


def fallback(blocks: list[Block]) -> str:
    """The first text of the blocks: already escaped, shortened for a notification."""
    for block in blocks:
        if block["type"] == "section":
            return kit.clip(block["text"]["text"], kit.FALLBACK_TEXT)
    return "oombot"
