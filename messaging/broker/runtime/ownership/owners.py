"""Who serves a topic, as the rest of a broker asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from messaging.protocol.names import TopicName


class Elsewhere(NamedTuple):
    """`addresses` by kind, as in `BrokerSession`. `owner`: whether that broker serves the topic; else it is to acquire it."""

    addresses: Mapping[str, str]
    owner: bool


class Owners(Protocol):
    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        """None: here. `sent`: another broker sent whoever asks. Acquires the topic's bundle where nobody has it and it is this
        broker's turn. Raises `NotReady` where nobody can serve the topic now."""

    async def require(self, name: TopicName) -> None:
        """Returns if the topic is served here. Raises `NotReady`, so that clients look it up again."""

    async def own(self, names: list[TopicName]) -> list[TopicName]:
        """Those of them that are served here. Raises `NotReady` where it is not known of one."""


class SoleOwner:
    """There is one broker, and everything is here."""

    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        return None

    async def require(self, name: TopicName) -> None:
        return None

    async def own(self, names: list[TopicName]) -> list[TopicName]:
        return names
