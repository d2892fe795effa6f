"""The garbage collector of the simulated cluster, beside others that write at the same time."""

from bot.ports import Json
from bot.sandbox.cluster import garbage
from bot.sandbox.cluster.resources import BY_KIND, NAMESPACES, Resource
from bot.sandbox.cluster.store import Store

CONFIG_MAPS = BY_KIND["v1", "ConfigMap"]


class WrittenBetweenTwoLooks(Store):
    """A store in which somebody makes a namespace, and something in it, right behind the first list that is asked for."""

    written = False

    def all(self, resource: Resource, namespace: str = "") -> list[Json]:
        found = super().all(resource, namespace)
        if not self.written:
            self.written = True
            self.create(NAMESPACES, {"metadata": {"name": "fresh"}}, manager="x")
            self.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "fresh"}}, manager="x")
        return found


def test_what_is_made_while_the_collector_looks_stays() -> None:
    store = WrittenBetweenTwoLooks()
    garbage.collect(store)
    assert store.written
    assert store.find(CONFIG_MAPS, "fresh", "settings") is not None


def test_what_stood_in_a_namespace_that_went_goes() -> None:
    store = Store()
    store.create(NAMESPACES, {"metadata": {"name": "old"}}, manager="x")
    store.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "old"}}, manager="x")
    store.delete(NAMESPACES, "", "old")
    garbage.collect(store)
    assert store.find(CONFIG_MAPS, "old", "settings") is None
