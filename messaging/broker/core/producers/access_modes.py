"""Pulsar's access modes of producers as one table: what a producer that asks for a topic is answered. Pure.

`Occupancy` is what a request finds, `ANSWERS` what it gets; `producer_table.ProducerTable` carries it out.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto


class AccessMode(IntEnum):
    """With the numbers of the protocol."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


MODE_NAMES = {
    AccessMode.SHARED: "Shared",
    AccessMode.EXCLUSIVE: "Exclusive",
    AccessMode.WAIT_FOR_EXCLUSIVE: "WaitForExclusive",
    AccessMode.EXCLUSIVE_WITH_FENCING: "ExclusiveWithFencing",
}


class Occupancy(Enum):
    """Who has a topic."""

    FREE = auto()
    SHARED = auto()  # producers that share it
    AWAITED = auto()  # the same, and somebody waits for them to leave
    OWNED = auto()  # one exclusive producer; others may wait


class Answer(Enum):
    JOIN = auto()  # the topic is shared
    OWN = auto()  # it becomes the exclusive producer, under a new topic epoch
    TAKE_OVER = auto()  # the same, and all others are fenced: those that have the topic and those that wait for it
    WAIT = auto()  # it is queued until the topic is free
    BUSY = auto()  # refused with `ProducerBusy`
    FENCED = auto()  # refused with `ProducerFenced`


ANSWERS: dict[AccessMode, dict[Occupancy, Answer]] = {
    AccessMode.SHARED: {
        Occupancy.FREE: Answer.JOIN,
        Occupancy.SHARED: Answer.JOIN,
        Occupancy.AWAITED: Answer.BUSY,
        Occupancy.OWNED: Answer.BUSY,
    },
    AccessMode.EXCLUSIVE: {
        Occupancy.FREE: Answer.OWN,
        Occupancy.SHARED: Answer.FENCED,
        Occupancy.AWAITED: Answer.FENCED,
        Occupancy.OWNED: Answer.FENCED,
    },
    AccessMode.WAIT_FOR_EXCLUSIVE: {
        Occupancy.FREE: Answer.OWN,
        Occupancy.SHARED: Answer.WAIT,
        Occupancy.AWAITED: Answer.WAIT,
        Occupancy.OWNED: Answer.WAIT,
    },
    AccessMode.EXCLUSIVE_WITH_FENCING: {
        Occupancy.FREE: Answer.OWN,
        Occupancy.SHARED: Answer.TAKE_OVER,
        Occupancy.AWAITED: Answer.TAKE_OVER,
        Occupancy.OWNED: Answer.TAKE_OVER,
    },
}
