"""The producers of one topic: whose name is taken, who owns the topic exclusively, who waits for it. Pure.

At most one producer owns a topic, and each owner has a topic epoch that is higher than those of all owners before it; only an owner
that connects again keeps its own. A request with an older epoch comes from a producer that was replaced while it was away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from messaging.broker.core.clients import client_usage
from messaging.broker.core.producers.access_modes import ANSWERS, MODE_NAMES, AccessMode, Answer, Occupancy
from messaging.broker.core.producers.producer import NO_EPOCH, Producer
from messaging.errors import MagnetarError, ProducerBusy, ProducerFenced

WAITING_MAX = 1_000  # producers that wait for one topic


class Admission(NamedTuple):
    """What became of a request, and what it did to others."""

    answer: Answer  # JOIN, OWN, TAKE_OVER or WAIT
    former: Producer | None  # the same producer on an earlier try, or on a connection that is gone; replaced
    fenced: Sequence[Producer]  # had the topic
    refused: Sequence[Producer]  # waited for the topic


class Departure(NamedTuple):
    promoted: Producer | None  # waited, and owns the topic now
    refused: Sequence[Producer]  # waited, and named an epoch that is over


class ProducerTable:
    """Nearly every topic has at most one producer, so there is a dictionary only from the second on, and one of those that
    wait only from the first on. `topic_epoch` is the stored one."""

    __slots__ = ("_by_name", "_only", "_waiting", "departed", "owner", "topic_epoch")

    def __init__(self, topic_epoch: int = NO_EPOCH) -> None:
        self._only: Producer | None = None
        self._by_name: dict[str, Producer] | None = None  # from the second producer on, for good
        self._waiting: OrderedDict[Producer, None] | None = None  # in order; a connection with many of them leaves at once
        self.owner: Producer | None = None  # the exclusive producer
        self.topic_epoch = topic_epoch  # the highest one given out
        self.departed: client_usage.Totals | None = None  # what those that are gone had published

    def attach(self, producer: Producer) -> Admission:
        """Raises `ProducerBusy`, `ProducerFenced`; nothing has changed then.

        A producer replaces one of its name that is itself on an earlier try (same connection and id, lower epoch), or whose
        connection is gone (Pulsar's successor rule)."""
        same_named = self.get(producer.name)
        former = same_named if same_named is not None and _succeeds(producer, same_named) else None
        occupancy = self._occupancy(former)
        answer = ANSWERS[producer.access][occupancy]
        if answer in (Answer.BUSY, Answer.FENCED):
            raise self._refusal(answer, occupancy)
        if answer is Answer.JOIN:
            if same_named is not None and former is None:
                raise ProducerBusy(
                    f"a producer named {producer.name!r} is already connected to this topic: close it, or use another name"
                )
            if former is not None:
                self._drop(former)
            self._add(producer)
            return Admission(answer, former, (), ())
        self._check_epoch(producer)
        if answer is Answer.WAIT:
            if self.waiting >= WAITING_MAX:
                raise ProducerBusy(f"{WAITING_MAX} producers wait for this topic already: close some")
            if former is not None:
                self._drop(former)
            if self._waiting is None:
                self._waiting = OrderedDict()
            self._waiting[producer] = None
            return Admission(answer, former, (), ())
        fenced: Sequence[Producer] = ()
        refused: Sequence[Producer] = ()
        if answer is Answer.TAKE_OVER:
            fenced = [other for other in self if other is not former]
            refused, self._waiting = list(self._waiting or ()), None
        for other in self:
            self._drop(other)
        self._own(producer)
        return Admission(answer, former, fenced, refused)

    def _occupancy(self, former: Producer | None) -> Occupancy:
        """As it is without `former`. Those that wait count only while others have the topic: `former` continues before them."""
        if self.owner is not None and self.owner is not former:
            return Occupancy.OWNED
        if len(self) == (former is not None):
            return Occupancy.FREE
        return Occupancy.AWAITED if self._waiting else Occupancy.SHARED

    def _refusal(self, answer: Answer, occupancy: Occupancy) -> MagnetarError:
        if occupancy is Occupancy.OWNED and self.owner is not None:
            why = f"producer {self.owner.name!r} has this topic with access mode {MODE_NAMES[self.owner.access]}"
        elif occupancy is Occupancy.AWAITED:
            why = "another producer waits for exclusive access to this topic"
        else:
            why = f"this topic has {len(self)} producers that share it"
        refused = ProducerBusy if answer is Answer.BUSY else ProducerFenced
        return refused(f"{why}: close it first, or open the producer with access mode WaitForExclusive or ExclusiveWithFencing")

    def _check_epoch(self, producer: Producer) -> None:
        if self._outdated(producer):
            raise ProducerFenced(
                f"producer {producer.name!r} had this topic in epoch {producer.topic_epoch}, and another had it since, in epoch "
                f"{self.topic_epoch}: open a new producer"
            )

    def _outdated(self, producer: Producer) -> bool:
        return NO_EPOCH < producer.topic_epoch < self.topic_epoch

    def _own(self, producer: Producer) -> None:
        """An epoch that the topic never gave out (it was deleted and created again, or is made up) is not taken over."""
        if not NO_EPOCH < producer.topic_epoch <= self.topic_epoch:
            producer.topic_epoch = self.topic_epoch + 1
        self.topic_epoch = producer.topic_epoch
        self._add(producer)
        self.owner = producer

    def _add(self, producer: Producer) -> None:
        if self._by_name is None and self._only is None:
            self._only = producer
            return
        if self._by_name is None:
            assert self._only is not None
            self._by_name = {self._only.name: self._only}
            self._only = None
        self._by_name[producer.name] = producer

    def _drop(self, producer: Producer) -> bool:
        """Whether it was in the table; a successor of the same name is left alone."""
        if self.owner is producer:
            self.owner = None
        if self._only is producer:
            self._only = None
        elif self._by_name is not None and self._by_name.get(producer.name) is producer:
            del self._by_name[producer.name]
        else:
            return False
        self.departed = client_usage.with_producer(self.departed, producer)
        return True

    def detach(self, producer: Producer) -> Departure | None:
        """None if nobody takes its place. Idempotent; leaves a successor of the same name alone."""
        if self._waiting is not None and producer in self._waiting:
            del self._waiting[producer]
            self._waiting = self._waiting or None
            return None
        if not self._drop(producer) or self._waiting is None or len(self):
            return None
        refused: list[Producer] = []
        while self._waiting:
            first = next(iter(self._waiting))
            del self._waiting[first]
            if not self._outdated(first):
                self._own(first)
                self._waiting = self._waiting or None
                return Departure(first, refused)
            refused.append(first)
        self._waiting = None
        return Departure(None, refused)

    def clear(self) -> tuple[list[Producer], Sequence[Producer]]:
        """Removes all of them: those that had the topic, and those that waited for it."""
        members, waiting = list(self), list(self._waiting or ())
        for member in members:
            self.departed = client_usage.with_producer(self.departed, member)
        self._only = self.owner = self._waiting = None
        if self._by_name is not None:
            self._by_name = {}
        return members, waiting

    def get(self, name: str) -> Producer | None:
        if self._by_name is not None:
            return self._by_name.get(name)
        return self._only if self._only is not None and self._only.name == name else None

    def rivals(self, producer_name: str, access: AccessMode) -> list[Producer]:
        """Those that keep such a producer from getting the topic; their clients may have disappeared."""
        if access is AccessMode.SHARED and self.owner is None:
            same_named = self.get(producer_name)
            return [] if same_named is None else [same_named]
        return [] if access is AccessMode.EXCLUSIVE_WITH_FENCING else list(self)

    @property
    def waiting(self) -> int:
        return len(self._waiting) if self._waiting is not None else 0

    def __len__(self) -> int:
        return len(self._by_name) if self._by_name is not None else int(self._only is not None)

    def __iter__(self) -> Iterator[Producer]:
        """Over a copy of those that have the topic: producers may be detached meanwhile."""
        if self._by_name is not None:
            return iter(list(self._by_name.values()))
        return iter(() if self._only is None else (self._only,))


def _succeeds(producer: Producer, same_named: Producer) -> bool:
    itself = (
        same_named.sink is producer.sink and same_named.producer_id == producer.producer_id and same_named.epoch < producer.epoch
    )
    return itself or not same_named.sink.alive()
