"""`playbooks/metrics`: what is asked is one number about these pods and no others, whatever their names are; and every mistake of a file is told."""

import re
from pathlib import Path

import pytest

from bot.errors import KnowledgeError
from bot.remediation.metrics import Pods, filled, folder, load, meant, mistakes

PODS = Pods("llm", ["chat-7d9f.x", "chat-2"], "server", {"cluster": "prod"})


def test_a_query_is_about_these_pods_and_no_others() -> None:
    asked = filled('sum(increase(x{$container}[$window])) + sum(y{$pod,le="1"}) + sum(z{$exported})', PODS, 90.4)
    assert asked == (
        'sum(increase(x{namespace="llm",pod=~"chat-7d9f\\\\.x|chat-2",container="server",cluster="prod"}[90s]))'
        ' + sum(y{namespace="llm",pod=~"chat-7d9f\\\\.x|chat-2",cluster="prod",le="1"})'
        ' + sum(z{exported_namespace="llm",exported_pod=~"chat-7d9f\\\\.x|chat-2",cluster="prod"})'
    )


def test_the_pods_own_row_is_left_out_where_no_container_is_known() -> None:
    assert 'container!=""' in filled("sum(x{$container})", Pods("llm", ["chat"], "", {}), 60)


@pytest.mark.parametrize("name", ['a"} or up{x="', "a\\", "a\nb", "a|.*", ".+", 'a\\"'])
def test_no_name_gets_out_of_its_matcher(name: str) -> None:
    asked = filled("sum(x{$pod})", Pods(name, [name], "", {"cluster": name}), 60)
    inside = re.fullmatch(r'sum\(x\{namespace="((?:[^"\\\n]|\\.)*)",pod=~"((?:[^"\\\n]|\\.)*)",cluster="((?:[^"\\\n]|\\.)*)"\}\)', asked)
    assert inside, asked
    exact, pattern, _ = (text.replace("\\n", "\n").replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\") for text in inside.groups())
    assert exact == name
    assert re.fullmatch(pattern, name)
    assert not re.fullmatch(pattern, "another-pod")


def test_every_metric_that_we_know_is_whole_and_asks_about_pods() -> None:
    known = load()
    assert mistakes(folder()) == []
    assert {"cpu_throttled", "host_memory_peak", "device_memory_peak", "cache_usage", "preemptions", "requests_waiting", "restarts"} <= set(known)
    for metric in known.values():
        for query in metric.queries:
            assert '"llm"' in filled(query, PODS, 60)
            assert "$" not in filled(query, PODS, 60)


def test_the_older_name_of_a_metric_is_asked_second() -> None:
    new, old = load()["cache_usage"].queries
    assert ("vllm:kv_cache_usage_perc" in new, "vllm:gpu_cache_usage_perc" in old) == (True, True)


def test_a_metric_belongs_to_a_cause_or_to_a_remedy() -> None:
    known = load()
    assert [one.id for one in meant("cpu_throttling", "cpu_limit:remove", known)] == ["cpu_throttled", "requests_waiting"]
    assert "preemptions" in [one.id for one in meant("", "max_num_seqs:lower", known)]
    assert meant("segfault", "vllm_version:change", known) == ()


GOOD = "metric: fine\nsays: {en: a, zh: b}\nunit: share\nbad_above: 0.5\ncauses: [cpu_throttling]\nqueries: ['max(x{$pod})']\n"


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("metric: fine", "metric: other", "the name of the file"),
        ("unit: share", "unit: apples", "`unit` is one of"),
        ("bad_above: 0.5", "bad_above: much", "`bad_above` is a number"),
        ("says: {en: a, zh: b}", "says: {en: a}", "`says` has the texts"),
        ("causes: [cpu_throttling]", "color: red\ncauses: [cpu_throttling]", "unknown key color"),
        ("causes: [cpu_throttling]", "causes: [sadness]", "no cause is called sadness"),
        ("causes: [cpu_throttling]", "remedies: [pray]", "no remedy is called pray"),
        ("causes: [cpu_throttling]\n", "", "belongs to no cause"),
        ("'max(x{$pod})'", "'max(x)'", "everybody's pods"),
        ("'max(x{$pod})'", "'max(x{$node})'", "$node is none of"),
        ("'max(x{$pod})'", "'x{$pod}'", "one answer"),
        ("'max(x{$pod})'", "'max by (pod) (x{$pod})'", "one answer"),
        ("['max(x{$pod})']", "7", "`queries` is a list"),
        ("metric: fine", "metric: [", "not YAML"),
    ],
)
def test_each_mistake_of_a_file_is_told_with_its_place(tmp_path: Path, was: str, becomes: str, told: str) -> None:
    (tmp_path / "fine.yaml").write_text(GOOD.replace(was, becomes))
    found = mistakes(tmp_path, ["cpu_throttling"], ["cpu_limit:remove"])
    assert any(told in one and f"{tmp_path / 'fine'}.yaml:" in one for one in found), found
    if "is called" not in told:
        with pytest.raises(KnowledgeError):
            load(tmp_path)


def test_a_good_file_has_no_mistakes(tmp_path: Path) -> None:
    (tmp_path / "fine.yaml").write_text(GOOD)
    assert mistakes(tmp_path, ["cpu_throttling"], ["cpu_limit:remove"]) == []
