"""A metadata store around any other, whose n-th call fails, before or after it was carried out."""

from __future__ import annotations

from typing import Any

from messaging.storage.ledger_store import StoreError
from tests.support.storage.faults import Fault


class FaultyMetaStore:
    """Everything but `begin` and the counter is the other's."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.begin(0)

    def begin(self, fails_at: int, error: StoreError | None = None, *, after_doing: bool = False) -> None:
        """Counts calls from here on; the one of this number (0: none) raises `error`, and must come."""
        self.calls = 0
        self._fault = Fault(f"call {fails_at} of the metadata fails", surely=fails_at > 0)
        self._fails_at = fails_at
        self._error = error
        self._after_doing = after_doing

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)

        async def call(*values: Any, **named: Any) -> Any:
            self.calls += 1
            fails = self.calls == self._fails_at and self._error is not None
            if fails:
                self._fault.fire()
            if fails and not self._after_doing:
                raise self._error  # type: ignore[misc]
            result = await real(*values, **named)
            if fails:
                raise self._error  # type: ignore[misc]
            return result

        return call
