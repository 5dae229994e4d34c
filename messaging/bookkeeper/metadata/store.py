"""What the client needs of a metadata store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.placement import DEFAULT_RACK


class MetadataConflict(Exception):
    """What is stored has another version than the change was made of, or is there although it should not be."""


class UnknownOutcome(Exception):
    """The change may have been stored or not, and may still be: read it again."""


@dataclass(frozen=True, slots=True)
class BookieAddress:
    """`read_only`: it takes no writes, because its disk is full or an operator wants it so. `problem`: why it is not used for
    new ledgers.
    """

    bookie: str
    host: str
    port: int
    read_only: bool = False
    rack: str = DEFAULT_RACK
    problem: str | None = None


class MetadataStore(ABC):
    """All calls are of one event loop. Each may raise `Unavailable`: nothing was changed. Callbacks come in the same loop."""

    @abstractmethod
    async def start(self) -> None:
        """Raises `UnsupportedLayout` if the cluster is not one that this client may use."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def create(self, metadata: LedgerMetadata) -> LedgerMetadata:
        """With its version. Raises `MetadataConflict` if there is such a ledger, `UnknownOutcome`."""

    @abstractmethod
    async def read(self, ledger_id: int) -> LedgerMetadata:
        """Raises `NoSuchLedger`, `MalformedMetadata`."""

    @abstractmethod
    async def write(self, metadata: LedgerMetadata) -> LedgerMetadata:
        """If the stored version is `metadata.version`. Raises `MetadataConflict`, `NoSuchLedger`, `UnknownOutcome`."""

    @abstractmethod
    async def delete(self, ledger_id: int) -> None:
        """Whatever its version is. Raises `NoSuchLedger`, `UnknownOutcome`."""

    @abstractmethod
    def ledgers(self) -> AsyncIterator[int]:
        """Ids of all ledgers, a few at a time; those that come and go meanwhile may be in it or not. Not in order."""

    @abstractmethod
    async def new_ledger_id(self) -> int:
        """One that no ledger has and that nobody else is given."""

    @abstractmethod
    def watch(self, ledger_id: int, changed: Callable[[], None]) -> Callable[[], None]:
        """`changed` is called after the ledger's metadata may have changed, until what this returns is called."""

    @abstractmethod
    async def bookies(self) -> list[BookieAddress]:
        """Those that are registered now."""

    @abstractmethod
    def watch_bookies(self, changed: Callable[[], None]) -> None:
        """`changed` is called after bookies came or went."""
