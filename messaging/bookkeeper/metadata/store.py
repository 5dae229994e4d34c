"""What the client needs of a metadata store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.placement import DEFAULT_RACK


class MetadataConflict(Exception):
    """What is stored has another version than the change was made of, or is there although it should not be. `path`: of which node
    of the caller's that is so; None: of the ledger itself."""

    def __init__(self, path: str | None = None) -> None:
        super().__init__(path or "")
        self.path = path


class UnknownOutcome(Exception):
    """The change may have been stored or not, and may still be: read it again."""


class Node(NamedTuple):
    """A node of the caller's own, beside those of BookKeeper. `version` rises with each change of its data."""

    data: bytes
    version: int


class CheckNode(NamedTuple):
    path: str
    version: int


class CreateNode(NamedTuple):
    """Also the nodes above it that are missing."""

    path: str
    data: bytes = b""


class SetNode(NamedTuple):
    """The version is `version + 1` then."""

    path: str
    data: bytes
    version: int


class DeleteNode(NamedTuple):
    path: str


NodeChange: TypeAlias = CheckNode | CreateNode | SetNode | DeleteNode


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

    @property
    @abstractmethod
    def cluster_id(self) -> str:
        """Of the cluster of bookies, once it has started; empty where it has none. It has another one if it is made anew."""

    @abstractmethod
    async def start(self) -> None:
        """Raises `UnsupportedLayout` if the cluster is not one that this client may use."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def create(self, metadata: LedgerMetadata, along: Sequence[NodeChange] = ()) -> LedgerMetadata:
        """With its version. In one transaction with `along`. Raises `MetadataConflict` if there is such a ledger or one of these
        changes cannot be made, `UnknownOutcome`."""

    @abstractmethod
    async def read(self, ledger_id: int) -> LedgerMetadata:
        """Raises `NoSuchLedger`, `MalformedMetadata`."""

    @abstractmethod
    async def write(self, metadata: LedgerMetadata) -> LedgerMetadata:
        """If the stored version is `metadata.version`. Raises `MetadataConflict`, `NoSuchLedger`, `UnknownOutcome`."""

    @abstractmethod
    async def delete(self, ledger_id: int, along: Sequence[NodeChange] = ()) -> None:
        """Whatever its version is. In one transaction with `along`. Raises `NoSuchLedger`, `MetadataConflict`, `UnknownOutcome`."""

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

    # --- nodes of the caller's own; paths are absolute

    @abstractmethod
    async def node(self, path: str) -> Node | None:
        """None: there is none."""

    @abstractmethod
    async def names_below(self, path: str) -> list[str]:
        """The last parts of the paths of the nodes right below, in no order."""

    @abstractmethod
    async def change(self, changes: Sequence[NodeChange]) -> None:
        """All of them or none. Raises `MetadataConflict`, `UnknownOutcome`."""
