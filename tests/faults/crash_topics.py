"""What the crash campaign does to topics as such: unloading them, and making, growing and deleting partitioned ones."""

from __future__ import annotations

import random
from dataclasses import dataclass

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import (
    TOPICS_CREATE,
    TOPICS_DELETE,
    TOPICS_PARTITIONED_STATS,
    TOPICS_PARTITIONS,
    TOPICS_UNLOAD,
    TOPICS_UPDATE_PARTITIONS,
)
from messaging.adminrpc.topics import PartitionsGet, PartitionsUpdate, StatsAsked, TopicCreate, TopicDelete, TopicRef
from messaging.errors import Conflict, MagnetarError, NotFound

NAMES = 6
PARTITIONS_MAX = 12


def unload_again_and_again(rpc: AdminRpc, topics: list[str]) -> None:
    """Until the broker is gone. In a thread of its own."""
    try:
        while True:
            for topic in topics:
                rpc.call(TOPICS_UNLOAD, TopicRef(topic=topic))
    except MagnetarError:
        rpc.close()


@dataclass
class Fate:
    """Of one partitioned topic: what was answered last, and what was asked for after that without an answer. 0: there is none."""

    partitions: int = 0
    asked: int | None = None

    @property
    def possible(self) -> set[int]:
        return {self.partitions} if self.asked is None else {self.partitions, self.asked}


class Partitions:
    """Each change is asked for by one who waits for its answer: what a kill leaves is the state before or after it."""

    def __init__(self, chance: random.Random) -> None:
        self.answered = 0
        self._chance = random.Random(chance.random())
        self._fates = {f"persistent://public/default/parts-{number}": Fate() for number in range(NAMES)}

    def work(self, rpc: AdminRpc) -> None:
        """Until the broker is gone. In a thread of its own."""
        try:
            while True:
                topic = self._chance.choice(list(self._fates))
                self._change(rpc, topic, self._fates[topic])
                self.answered += 1
        except MagnetarError:
            rpc.close()

    def _change(self, rpc: AdminRpc, topic: str, fate: Fate) -> None:
        before = fate.partitions
        if not before:
            wanted = self._chance.randint(1, 4)
        elif before >= PARTITIONS_MAX or self._chance.random() < 0.3:
            wanted = 0
        else:
            wanted = before + self._chance.randint(1, 3)
        fate.asked = wanted
        if not before:
            rpc.call(TOPICS_CREATE, TopicCreate(topic=topic, partitions=wanted, properties={}))
        elif wanted:
            rpc.call(TOPICS_UPDATE_PARTITIONS, PartitionsUpdate(topic=topic, partitions=wanted))
        else:
            rpc.call(TOPICS_DELETE, TopicDelete(topic=topic, partitioned=True, force=True))
        fate.partitions, fate.asked = wanted, None

    def check(self, rpc: AdminRpc) -> None:
        """In the next life: everything answered stands; what was cut off can be asked for again, and then all of it is there."""
        for topic, fate in self._fates.items():
            partitions = _partitions_of(rpc, topic)
            assert partitions in fate.possible, f"{topic} has {partitions} partitions; {sorted(fate.possible)} are possible"
            if fate.asked is not None:
                self._finish(rpc, topic, fate.asked, partitions)
                fate.partitions, fate.asked = fate.asked, None
            if fate.partitions:  # each partition opens
                rpc.call(TOPICS_PARTITIONED_STATS, StatsAsked(topic=topic))
                assert _partitions_of(rpc, topic) == fate.partitions

    @staticmethod
    def _finish(rpc: AdminRpc, topic: str, wanted: int, partitions: int) -> None:
        try:
            if not wanted:
                rpc.call(TOPICS_DELETE, TopicDelete(topic=topic, partitioned=True, force=True))
            elif not partitions:
                rpc.call(TOPICS_CREATE, TopicCreate(topic=topic, partitions=wanted, properties={}))
            else:
                rpc.call(TOPICS_UPDATE_PARTITIONS, PartitionsUpdate(topic=topic, partitions=wanted))
        except (NotFound, Conflict):
            assert partitions == wanted, f"{topic} has {partitions} partitions and cannot be given {wanted}"


def _partitions_of(rpc: AdminRpc, topic: str) -> int:
    """0 where there is no such partitioned topic."""
    try:
        return int(rpc.call(TOPICS_PARTITIONS, PartitionsGet(topic=topic, check_auto_creation=False)).partitions)
    except NotFound:
        return 0
