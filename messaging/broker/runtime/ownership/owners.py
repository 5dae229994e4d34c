"""Who serves a topic, as the rest of a broker asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from messaging.protocol.names import TopicName


class Elsewhere(NamedTuple):
    """`addresses` by kind, as in `BrokerSession`. `owner`: whether that broker serves the topic; else it is to acquire it."""

    addresses: Mapping[str, str]
    owner: bool


class LookupClient(NamedTuple):
    """A client that looks a topic up. `wanted`: whether it is still there. `place`: for a look-up of its connection as long as that
    waits; False: there is none, since too many wait."""

    wanted: Callable[[], bool] = lambda: True
    place: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True)


ANYBODY = LookupClient()


class Owners(Protocol):
    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        """None: here. `sent`: another broker sent whoever asks. Acquires the topic's bundle where nobody has it and it is this
        broker's turn. Raises `NotReady` where nobody can serve the topic now."""

    async def found(self, name: TopicName, *, sent: bool = False, client: LookupClient = ANYBODY) -> Elsewhere | None:
        """The same for a client that looks a topic up: of one that nobody serves at the moment it waits for some seconds, while it
        seems that somebody is about to, and the client is still there and has a place."""

    async def require(self, name: TopicName) -> None:
        """Returns if the topic is served here. Raises `NotReady`, so that clients look it up again."""

    async def own(self, names: list[TopicName]) -> list[TopicName]:
        """Those of them that are served here. Raises `NotReady` where it is not known of one."""

    async def serves(self, name: TopicName) -> bool:
        """Whether it is served here, for what is done for many topics: not, if it is not known or nobody can serve it now."""

    def others(self, kind: str) -> list[str]:
        """The addresses of this kind of the other brokers that are alive, as far as is known."""

    def owned_namespaces(self) -> OwnedNamespaces:
        """What is this broker's at this moment. Acquires nothing."""


class OwnedNamespaces(Protocol):
    def has(self, topic: str) -> bool:
        """Whether the bundle of a topic, by its full name or its place in the recycle bin, is this broker's. May be asked in any
        thread."""

    def has_at(self, namespace: str, position: int) -> bool:
        """The same of the bundle that holds a hash."""


class Everything:
    def has(self, topic: str) -> bool:
        return True

    def has_at(self, namespace: str, position: int) -> bool:
        return True


class SoleOwner:
    """There is one broker, and everything is here."""

    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        return None

    async def found(self, name: TopicName, *, sent: bool = False, client: LookupClient = ANYBODY) -> Elsewhere | None:
        return None

    async def require(self, name: TopicName) -> None:
        return None

    async def own(self, names: list[TopicName]) -> list[TopicName]:
        return names

    async def serves(self, name: TopicName) -> bool:
        return True

    def others(self, kind: str) -> list[str]:
        return []

    def owned_namespaces(self) -> OwnedNamespaces:
        return Everything()


class PartitionsElsewhere(Protocol):
    async def check_unused(self, name: TopicName, partitions: Sequence[TopicName]) -> None:
        """Raises `PreconditionFailed` while clients are connected to one of them, `NotReady` where that cannot be asked."""

    async def delete(self, name: TopicName, partitions: Sequence[TopicName]) -> None:
        """The record of the partitioned topic says that it is being deleted. Raises `NotReady`; it can be asked again."""

    async def subscribe(self, partition: TopicName, subscription: str, properties: dict[str, str]) -> None:
        """From the beginning. Does nothing where there is one."""

    async def purged(self, name: TopicName, place: str, ledger_ids: Sequence[int]) -> None:
        """A topic or partition, whose log is elsewhere, is gone from its place in the recycle bin, and so are its ledgers to be.
        Raises `NotReady`."""

    async def restored(self, name: TopicName, place: str) -> None:
        """It is back from that place. Raises `NotReady`: that broker's figures are wrong until it starts again."""


class NoPartitionsElsewhere:
    """There is one broker."""

    async def check_unused(self, name: TopicName, partitions: Sequence[TopicName]) -> None:
        return None

    async def delete(self, name: TopicName, partitions: Sequence[TopicName]) -> None:
        return None

    async def subscribe(self, partition: TopicName, subscription: str, properties: dict[str, str]) -> None:
        raise AssertionError(f"{partition} is here")

    async def purged(self, name: TopicName, place: str, ledger_ids: Sequence[int]) -> None:
        raise AssertionError(f"{name} is here")

    async def restored(self, name: TopicName, place: str) -> None:
        raise AssertionError(f"{name} is here")
