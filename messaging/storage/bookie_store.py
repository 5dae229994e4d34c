"""A ledger store on bookies, which may be listed and be put into racks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from messaging.bookkeeper.core.racks import RackTable


class SeenBookie(Protocol):
    """`problem`: why it is not used for new ledgers."""

    @property
    def bookie(self) -> str: ...
    @property
    def rack(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def problem(self) -> str | None: ...


class RackStore(Protocol):
    """Every call raises `StoreError`."""

    async def table(self) -> RackTable: ...

    async def change(self, change: Callable[[RackTable], RackTable]) -> RackTable:
        """Returns what was there before."""


@runtime_checkable
class BookieStore(Protocol):
    @property
    def racks(self) -> RackStore: ...

    def bookies(self) -> Sequence[SeenBookie]:
        """Those that are registered. Raises `StoreError`."""

    def degraded_for_s(self) -> Mapping[int, float]:
        """Ledgers that this process writes with fewer copies than they should have, and for how many seconds."""
