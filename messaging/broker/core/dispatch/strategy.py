"""The interface of a dispatch strategy: which consumer gets the next entries, and what happens to entries that are given back.
Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position


class DispatchStrategy(Protocol):
    """Made for a `DispatchState` when the first consumer of its type attaches. The subscription has added a consumer to the state
    before `attach`, and taken it out before `detach`."""

    @property
    def kind(self) -> SubscriptionType: ...

    @property
    def active(self) -> Consumer | None:
        """The only consumer that is sent anything; None where all are, or none is there."""

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes for what it knows of entries, beside bitmaps."""

    @property
    def unsettled(self) -> bool:
        """Whether nothing is sent because there is more to decide first: `can_dispatch` does a part of that each time."""

    def admit(self, consumer: Consumer) -> None:
        """Raises where it cannot join those that are there: `ConsumerBusy`, `ConsumerAssign`."""

    def attach(self, consumer: Consumer) -> None: ...

    def detach(self, consumer: Consumer) -> None:
        """What it has not acknowledged is to be sent again."""

    def can_dispatch(self) -> bool:
        """Whether some consumer could take a message now."""

    def share(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        """Shares out the entries of `block` within `ranges`: (first, last), entry ids in order. Returns the deliveries, and
        the first entry that nobody can take now, nor any after it; None if there is none."""

    def acknowledged(self, consumer: Consumer | None, ledger_id: int, entries: BitMap) -> None:
        """These entries are done: nobody holds them any more, and nobody is sent them again."""

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """`consumer` wants these again; None: all that it has not acknowledged."""

    def reset(self) -> None:
        """A seek: no consumer holds anything any more."""

    def recover(self) -> None:
        """Something raised while entries were shared out or sent: what was not sent is to be sent again."""

    def unacked_of(self, consumer: Consumer) -> int:
        """What `consumer` was sent and has not acknowledged."""

    def acknowledged_messages(self, consumer: Consumer) -> int:
        """How many messages `consumer` has acknowledged, told from what it was sent: acknowledging itself counts nothing."""
