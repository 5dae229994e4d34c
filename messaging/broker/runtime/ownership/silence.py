"""Which brokers do not answer, as calls to them show: each is told something once a second, and answers at once if it is well."""

from __future__ import annotations

import time
from collections.abc import Callable

SILENT_S = 1.2  # since a broker was asked first, of what is not answered
GIVEN_UP_S = 2.0  # likewise, for what cannot be answered without it


class Silence:
    """Brokers by the address of their admin RPC. `now_s` never goes back."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._asked_s: dict[str, float] = {}

    def asked(self, rpc_url: str) -> None:
        self._asked_s.setdefault(rpc_url, self._now_s())

    def answered(self, rpc_url: str) -> None:
        """Whatever was asked: it is there."""
        self._asked_s.pop(rpc_url, None)

    def silent(self, since_s: float) -> set[str]:
        """The addresses of those that are."""
        return {rpc_url for rpc_url in self._asked_s if self.is_silent(rpc_url, since_s)}

    def is_silent(self, rpc_url: str, since_s: float = SILENT_S) -> bool:
        asked_s = self._asked_s.get(rpc_url)
        return asked_s is not None and self._now_s() - asked_s > since_s
