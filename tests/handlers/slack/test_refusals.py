"""Each refusal of the policy as the refused person reads it, in both languages: what was refused, and what would be right or when it is possible."""

import pytest

import bot.policy
from bot.model import Words
from handlers.slack import wording
from tests.walk.test_words import documented

AT = "2026-12-07T08:00:00+00:00"
DAY = "<!date^1796630400^{date_short_pretty} {time}|2026-12-07 08:00 UTC>"
SAID: dict[str, tuple[dict[str, str], str, str]] = {
    "bot_account": ({}, "Refused: bots may not use oombot.", "已拒绝：机器人账号不能使用 oombot。"),
    "deleted_account": ({}, "Refused: this account is deactivated.", "已拒绝：该账号已停用。"),
    "guest": ({}, "Refused: guests may not use oombot.", "已拒绝：访客不能使用 oombot。"),
    "stranger": ({}, "Refused: people of another organisation may not use oombot.", "已拒绝：其他组织的成员不能使用 oombot。"),
    "unknown_person": ({"reason": "no answer"}, "Slack did not say who you are (no answer). Nothing was done", "未能确认你的身份（no answer）"),
    "direct_message": ({}, "not in a direct message. Ask in one of the team's channels.", "不能在私信中使用"),
    "channel_not_allowed": ({"channel": "C01OTHER"}, "from this channel (<#C01OTHER>). Ask in one of the channels that are set up", "此频道（<#C01OTHER>）"),
    "wrong_channel": ({"channel": "C01ONCALL"}, "this button belongs to a message in <#C01ONCALL>.", "该按钮属于 <#C01ONCALL> 中的消息"),
    "namespace_not_readable": ({"namespace": "pay", "cluster": "east"}, "you may not look at namespace pay in east.", "不能查看 east 中的命名空间 pay"),
    "read_only": ({}, "no action is enabled (setting policy.actions).", "没有启用任何操作（设置 policy.actions）"),
    "action_not_enabled": ({"action": "restart"}, "the action restart is not enabled (setting policy.actions).", "操作 restart 未启用"),
    "protected_namespace": ({"namespace": "kube-system"}, "nothing is ever changed in namespace kube-system.", "命名空间 kube-system 受保护"),
    "namespace_not_changeable": ({"namespace": "pay"}, "nothing may be changed in namespace pay (setting policy.namespaces).", "不允许改动命名空间 pay"),
    "risk_too_high": ({"risk": "high", "highest": "low"}, "the plan's risk is high, at most low is allowed here.", "方案风险为高，此处最高允许低"),
    "no_approvers": ({"namespace": "llm", "cluster": "east"}, "nobody is set up who could approve changes in llm of east", "没有配置可审批 east 中 llm 改动的人"),
    "nobody_left": ({"who": "S01ONCALL", "left": "0", "needed": "1"}, "besides you and whoever asked, 0 of <!subteam^S01ONCALL> could approve, and it takes 1.", "<!subteam^S01ONCALL> 中只剩 0 人"),
    "kept_elsewhere": (
        {"object": "Deployment llm/chat", "keeper": "Argo CD shop"},
        "Deployment llm/chat is kept by `Argo CD shop`, and such an object is not changed in place here.",
        "由 `Argo CD shop` 维护",
    ),
    "frozen": ({"who": "U01ANA", "at": AT}, "changes are frozen by <@U01ANA> since <!date^1796630400^", "<@U01ANA> 自 <!date^1796630400^"),
    "dated_freeze": ({"reason": "year end", "opens": AT}, f"(year end). Possible again from {DAY}.", f"变更冻结期（year end）。{DAY} 起可再次变更。"),
    "outside_window": ({"opens": AT}, f"outside of the change window. It opens {DAY}.", f"窗口将于 {DAY} 打开。"),
    "quota_used": ({"most": "4", "place": "east/llm", "opens": AT}, "4 change(s) an hour are allowed in east/llm", f"{DAY} 起可再次变更。"),
    "not_approver": ({"who": "S01ONCALL"}, "you may not approve or reject this. Who may: <!subteam^S01ONCALL>.", "可审批：<!subteam^S01ONCALL>"),
    "already_approved": ({"who": "U03WEI"}, "counted already (as <@U03WEI>). It takes another person.", "你的批准已计入（<@U03WEI>）"),
    "no_address": ({}, "Slack gives no e-mail address for your account", "Slack 没有提供你账号的邮箱"),
    "no_address_of": ({"who": "U01ANA"}, "no e-mail address for <@U01ANA>, who is behind this plan", "没有提供 <@U01ANA> 的邮箱"),
    "approval_lapsed": ({"who": "U03WEI", "lapsed": "not_approver"}, "by <@U03WEI> does not count any more: they are no approver any more.", "<@U03WEI> 的批准已不再有效：已不是审批人"),
    "name_not_typed": ({"name": "draft"}, "types the name of what is changed: draft", "须输入改动对象的名称：draft"),
    "approvals_missing": ({"have": "1", "needed": "2"}, "Not carried out: 1 of 2 approvals count.", "需要 2 个批准，有效的只有 1 个"),
    "second_person_asked": ({}, "you asked for the check, so another person must approve.", "检查由你发起，须由另一人审批"),
    "second_person_applied": ({}, "you pressed Apply, so another person must approve.", "你按下了“应用”，须由另一人审批"),
    "expired": ({"at": AT}, "the approval expired at <!date^1796630400^{time}|08:00 UTC>. Nothing was done.", "没有执行任何操作"),
    "clock_moved": ({}, "the clock stands before the time of the request. Nothing was done.", "当前时钟早于请求时间"),
    "not_unfreezer": ({}, "only an approver turns changes on again.", "只有审批人才能恢复改动"),
}


def test_the_list_is_all_that_the_policy_refuses() -> None:
    assert set(documented(bot.policy.__doc__ or "", "Keys of the refusals")) == set(SAID)


@pytest.mark.parametrize("key", SAID)
def test_a_refusal_says_what_and_what_would_be_right(key: str) -> None:
    parameters, english, chinese = SAID[key]
    assert english in wording.say(Words(key, parameters), "en")
    assert chinese in wording.say(Words(key, parameters), "zh")


@pytest.mark.parametrize(("key", "english"), [("outside_window", "it never opens."), ("dated_freeze", "no time comes when they are possible.")])
def test_what_never_opens_is_said_to_never_open(key: str, english: str) -> None:
    assert english in wording.say(Words(key, {"opens": "", "reason": ""}), "en")
