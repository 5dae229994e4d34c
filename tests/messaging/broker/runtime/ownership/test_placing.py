"""Where bundles go that nobody owns, when several brokers are asked that know different things of each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from messaging.broker.core.control.placement_view import PlacementView
from messaging.broker.core.ownership.fleet_rules import FleetRules
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.runtime.ownership.shared_member import EndsSessions, SharedMember
from messaging.protocol.bundles import equal_bundles
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ownership import SERVES, NamespaceBundle
from messaging.storage.sql.ownership import SqlOwnershipStore
from messaging.storage.sqlite.meta_store import SqliteMetaStore

GROUPS, MEMBERS = 12, 2
REDIRECTS_MAX = 20  # as clients have it
NAMESPACES = [f"acme/n{number}" for number in range(GROUPS * MEMBERS)]


class Fleet:
    """Brokers that share a database. None of them looks at it unless it has a reason to."""

    def __init__(self, store: SqlOwnershipStore, *names: str) -> None:
        self.store = store
        self.members = {name: self._member(name) for name in names}

    def _member(self, name: str) -> SharedMember:
        view, owners = PlacementView(), OwnerMap()
        for number, namespace in enumerate(NAMESPACES):
            view.keep_namespace(namespace, {"policies": {"anti_affinity_group": f"g{number // MEMBERS}"}})
        rules = FleetRules(view, owners)
        return SharedMember(
            self.store, name, lambda namespace: equal_bundles(1), cast(EndsSessions, None), owners=owners, rules=rules
        )

    async def start(self) -> Fleet:
        for name, member in self.members.items():
            await member.resume(await self.store.open_session(name, {}))
            await member.serve({SERVES: name})
        for member in self.members.values():
            await member.look()
        return self

    async def place(self, name: TopicName, asked: str) -> str:
        """Which broker has the topic afterwards, as a client finds it that asks this one first."""
        elsewhere = await self.members[asked].where(name)
        for _ in range(REDIRECTS_MAX):
            if elsewhere is None:
                return asked
            asked = elsewhere.addresses[SERVES]
            elsewhere = await self.members[asked].where(name, sent=True)
        raise AssertionError(f"{name} is sent from one to the other")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlOwnershipStore]:
    meta = SqliteMetaStore(tmp_path / "meta.sqlite3")
    await meta.start()
    yield meta.ownership
    await meta.stop()


def _topic(namespace: str) -> TopicName:
    return parse_topic(f"persistent://{namespace}/t")


@pytest.mark.parametrize("expects", [True, False], ids=["soon", "much later"])
async def test_namespaces_of_a_group_that_are_used_one_after_the_other_are_apart_whoever_is_asked(
    store: SqlOwnershipStore, expects: bool
) -> None:
    """Also if the client is so slow that the broker which sent it on expects nothing any more."""
    fleet = await Fleet(store, "b1", "b2").start()
    places = []
    for number, namespace in enumerate(NAMESPACES):
        asked = fleet.members["b1" if number % 3 else "b2"]
        elsewhere = await asked.where(_topic(namespace))
        place = asked.broker_id if elsewhere is None else elsewhere.addresses[SERVES]
        if elsewhere is not None and not expects:
            asked.owners.forget_expected()
            asked.owners.forget_expected()
        assert await fleet.members[place].where(_topic(namespace), sent=True) is None
        places.append(place)
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert first != second


async def test_many_namespaces_that_one_broker_is_asked_about_at_once_are_apart(store: SqlOwnershipStore) -> None:
    fleet = await Fleet(store, "b1", "b2").start()
    places = await asyncio.gather(*(fleet.place(_topic(namespace), "b1") for namespace in NAMESPACES))
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert first != second


@pytest.mark.parametrize("brokers", [2, 3])
async def test_namespaces_of_a_group_that_two_brokers_are_asked_about_at_the_same_moment_are_apart(
    store: SqlOwnershipStore, brokers: int
) -> None:
    """Both saw that a broker had none of the group, and both gave it one."""
    fleet = await Fleet(store, *("b1", "b2", "b3")[:brokers]).start()
    for first, second in zip(NAMESPACES[::2], NAMESPACES[1::2], strict=True):
        places = await asyncio.gather(fleet.place(_topic(first), "b1"), fleet.place(_topic(second), "b2"))
        assert len(set(places)) == 2, (first, second, places)


async def test_all_namespaces_at_the_same_moment_are_each_somewhere(store: SqlOwnershipStore) -> None:
    fleet = await Fleet(store, "b1", "b2", "b3").start()
    places = await asyncio.gather(
        *(fleet.place(_topic(namespace), f"b{1 + number % 3}") for number, namespace in enumerate(NAMESPACES))
    )
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert first != second


async def test_what_a_broker_leaves_is_divided_evenly_among_the_others(store: SqlOwnershipStore) -> None:
    """Each decides by itself which part is its own."""
    fleet = await Fleet(store, "b1", "b2", "b3").start()
    left = [NamespaceBundle(f"acme/left{number}", 0, 0xFFFFFFFF) for number in range(60)]
    for bundle in left:
        await store.acquire_bundle(bundle, "b3", fleet.members["b3"].session)
    ended = await store.fence_session("b3", fleet.members["b3"].session, gone=True)
    await store.recovered(ended)
    others = [fleet.members["b1"], fleet.members["b2"]]
    for _ in range(4):  # as many seconds
        for member in others:
            await member.follow()
        await asyncio.gather(*(member.adopt() for member in others))
    owners = Counter([(await store.bundles_of(bundle.namespace))[0].broker_id for bundle in left])
    assert owners == Counter(b1=30, b2=30)
