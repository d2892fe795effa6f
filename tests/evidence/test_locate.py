"""One target or a clear refusal."""

import pytest

from bot.errors import BadInput, Forbidden, TargetAmbiguous, TargetNotFound, Unreachable
from bot.evidence.locate import locate, query
from bot.model import Target, TargetQuery
from bot.ports import Json
from tests.evidence.world import FakeCluster, node, owned_by, pod, workload


def chat(name: str, **status: object) -> Json:
    return pod(name, owner=owned_by("ReplicaSet", "chat-7d9f"), metadata={"labels": {"app": "chat"}}, status=status or {"phase": "Running"})


def crashed(at: str) -> Json:
    return {"containerStatuses": [{"name": "server", "lastState": {"terminated": {"exitCode": 1, "finishedAt": at}}}]}


def cluster(name: str = "one") -> FakeCluster:
    return FakeCluster(
        name,
        [
            chat("chat-7d9f-x2x", **crashed("2026-11-30T09:12:00Z")),
            chat("chat-7d9f-y3y", **crashed("2026-11-30T10:00:00Z")),
            chat("chat-7d9f-z4z"),
            pod("embed-0", owner=owned_by("StatefulSet", "embed")),
            pod("embed-0", "other"),
            workload("ReplicaSet", "chat-7d9f", owner=owned_by("Deployment", "chat")),
            workload("Deployment", "chat", selector={"matchLabels": {"app": "chat"}}, replicas=3),
            workload("StatefulSet", "embed", selector={"matchLabels": {"app": "embed"}}, replicas=0),
            node("gpu-1"),
            node("gpu-10"),
        ],
    )


def find(word: str, namespace: str | None = None, container: str | None = None, **clusters: FakeCluster) -> Target:
    return locate(query(word, namespace, None, container), clusters or {"one": cluster()})


@pytest.mark.parametrize(
    ("word", "namespace", "wanted"),
    [
        ("pod-x", None, ("pod", "pod-x", None, None)),
        ("llm/pod-x", None, ("pod", "pod-x", "llm", None)),
        ("pod/pod-x", "llm", ("pod", "pod-x", "llm", None)),
        ("deploy/chat", "llm", ("workload", "chat", "llm", "Deployment")),
        ("deployment.apps/chat", None, ("workload", "chat", None, "Deployment")),
        ("llm/sts/embed", None, ("workload", "embed", "llm", "StatefulSet")),
        ("node/gpu-node-7", "llm", ("node", "gpu-node-7", None, None)),
    ],
)
def test_word_means(word: str, namespace: str | None, wanted: tuple[str, str, str | None, str | None]) -> None:
    got = query(word, namespace)
    assert (got.kind, got.name, got.namespace, got.workload_kind) == wanted


@pytest.mark.parametrize("word", ["", "/", "a//b", "a/b/c/d", "svc/x/y", "rm -rf", "$(id)", "x\ny", "-n", "../x", "pod/" + "a" * 300])
def test_what_is_no_name_gets_the_right_form(word: str) -> None:
    with pytest.raises(BadInput, match=r"give a pod|no kind that can be checked"):
        query(word)


def test_namespace_given_twice_must_agree() -> None:
    with pytest.raises(BadInput, match="names the namespace 'llm', but 'other' was given too"):
        query("llm/pod-x", "other")


def test_exact_pod_is_found_with_its_owner_node_and_gpus() -> None:
    target = find("llm/chat-7d9f-x2x")
    assert (target.cluster, target.namespace, target.pod, target.node, target.container, target.gpus) == ("one", "llm", "chat-7d9f-x2x", "gpu-1", "server", 1)
    assert target.pod_uid == "chat-7d9f-x2x-uid"
    assert (target.workload and str(target.workload), target.workload and target.workload.uid) == ("Deployment llm/chat", "chat-uid")


def test_unique_prefix_is_enough() -> None:
    assert find("chat-7d9f-x").pod == "chat-7d9f-x2x"


def test_exact_name_wins_over_longer_ones() -> None:
    assert find("node/gpu-1").node == "gpu-1"


def test_several_are_listed_and_none_is_picked() -> None:
    with pytest.raises(TargetAmbiguous) as several:
        find("chat")
    assert several.value.candidates == ("llm/chat-7d9f-x2x", "llm/chat-7d9f-y3y", "llm/chat-7d9f-z4z")
    assert "3 pods match 'chat'" in str(several.value)
    assert "`deploy/chat -n llm` takes the one that failed last" in str(several.value)


def test_same_name_in_two_namespaces_is_ambiguous_until_one_is_named() -> None:
    with pytest.raises(TargetAmbiguous) as several:
        find("embed-0")
    assert several.value.candidates == ("llm/embed-0", "other/embed-0")
    assert find("embed-0", namespace="other").namespace == "other"


def test_same_name_on_two_clusters_is_ambiguous_until_one_is_named() -> None:
    with pytest.raises(TargetAmbiguous, match=r"llm/chat-7d9f-x2x \(cluster eu\), llm/chat-7d9f-x2x \(cluster us\)"):
        find("chat-7d9f-x2x", eu=cluster("eu"), us=cluster("us"))
    assert locate(query("chat-7d9f-x2x", None, "us"), {"eu": cluster("eu"), "us": cluster("us")}).cluster == "us"


def test_no_match_suggests_the_nearest_names() -> None:
    with pytest.raises(TargetNotFound) as nothing:
        find("chat-7d9f-x2y")
    assert "llm/chat-7d9f-x2x" in nothing.value.nearest
    assert "no Pod is called 'chat-7d9f-x2y'" in str(nothing.value)


def test_typing_mistake_in_the_workloads_part_of_a_name_is_understood() -> None:
    with pytest.raises(TargetNotFound) as nothing:
        find("chxt")
    assert nothing.value.nearest[0].startswith("llm/chat-7d9f-")


def test_node_that_was_taken_for_a_pod_is_named() -> None:
    with pytest.raises(TargetNotFound, match="there is a Node of that name: node/gpu-10"):
        find("gpu-10")


def test_workload_without_pods_that_was_taken_for_a_pod_is_named() -> None:
    world = cluster()
    world.objects = [item for item in world.objects if item["kind"] != "Pod"]
    with pytest.raises(TargetNotFound, match="there is a StatefulSet of that name: sts/embed"):
        find("embed", one=world)


def test_wrong_namespace_suggests_the_right_one() -> None:
    with pytest.raises(TargetNotFound) as nothing:
        find("nowhere/chat-7d9f-x2x")
    assert nothing.value.nearest[0] == "llm/chat-7d9f-x2x"


def test_unknown_cluster_lists_those_there_are() -> None:
    with pytest.raises(BadInput, match="no cluster 'mars'; there are: eu, us"):
        locate(query("x", None, "mars"), {"us": cluster(), "eu": cluster()})


def test_of_a_workload_the_pod_that_failed_last_is_taken() -> None:
    assert find("deploy/chat", "llm").pod == "chat-7d9f-y3y"


def test_workload_without_pods_says_so() -> None:
    with pytest.raises(TargetNotFound, match=r"StatefulSet llm/embed has no pods \(it wants 0\)"):
        find("sts/embed")


def test_evicted_pod_counts_as_failed() -> None:
    world = cluster()
    world.objects.append(
        chat(
            "chat-7d9f-e5e",
            phase="Failed",
            reason="Evicted",
            conditions=[{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-11-30T11:00:00Z"}],
        )
    )
    assert find("deploy/chat", one=world).pod == "chat-7d9f-e5e"


def test_pod_without_an_owner_is_edited_itself() -> None:
    assert str(find("other/embed-0").workload) == "Pod other/embed-0"


def test_owner_that_may_not_be_read_is_still_named() -> None:
    world = cluster()
    world.refuses["Deployment"] = Forbidden("no")
    assert str(find("chat-7d9f-x2x", one=world).workload) == "Deployment llm/chat"


def test_owners_go_as_far_as_references_go() -> None:
    world = FakeCluster(
        objects=[
            pod("serve-0", owner=owned_by("StatefulSet", "serve")),
            workload("StatefulSet", "serve", owner=owned_by("LeaderWorkerSet", "big", "leaderworkerset.x-k8s.io/v1")),
            workload("LeaderWorkerSet", "big", version="leaderworkerset.x-k8s.io/v1"),
        ]
    )
    found = find("serve-0", one=world).workload
    assert found is not None
    assert (found.kind, found.name, found.api_version) == ("LeaderWorkerSet", "big", "leaderworkerset.x-k8s.io/v1")


def test_owner_of_another_uid_is_not_followed() -> None:
    world = FakeCluster(
        objects=[
            pod("a", owner=owned_by("ReplicaSet", "r")),
            {**workload("ReplicaSet", "r", owner=owned_by("Deployment", "d")), "metadata": {"name": "r", "namespace": "llm", "uid": "later"}},
        ]
    )
    assert str(find("a", one=world).workload) == "ReplicaSet llm/r"


def test_named_container_must_exist() -> None:
    with pytest.raises(BadInput, match="has no container 'sidecar'; it has: server"):
        find("chat-7d9f-x2x", container="sidecar")


def test_cluster_that_does_not_answer_matters_only_when_no_other_has_it() -> None:
    broken = FakeCluster("broken", refuses={"Pod": Unreachable("broken: cannot connect to the API server")})
    assert find("chat-7d9f-x2x", good=cluster("good"), broken=broken).cluster == "good"
    with pytest.raises(Unreachable, match="broken: cannot connect"):
        find("nothing-such", good=cluster("good"), broken=broken)


def test_credentials_of_one_namespace_are_told_to_name_it() -> None:
    world = FakeCluster(refuses={"Pod": Forbidden("one: pods is forbidden")})
    with pytest.raises(Forbidden, match="name one"):
        find("chat", one=world)


def test_alert_that_names_nothing_is_not_found() -> None:
    with pytest.raises(TargetNotFound, match="labels pod"):
        locate(TargetQuery("labels pod, node; the alert has: team", "unknown"), {"one": cluster()})
