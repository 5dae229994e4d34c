"""Which brokers do not answer, as calls to them show: each is told something once a second, and answers at once if it is well."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

SILENT_S = 1.2  # since a broker was asked first, of what is not answered
GIVEN_UP_S = 2.0  # likewise, for what cannot be answered without it
FORGOTTEN_S = 60.0  # since it was asked last: one that is alive is asked once in a call's time at least


class Asked(NamedTuple):
    """When it was first asked of what is not answered, and when it was asked last."""

    first_s: float
    last_s: float


class Silence:
    """Brokers by the address of their admin RPC, which may be another one after each start. `now_s` never goes back."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._asked: dict[str, Asked] = {}

    def asked(self, rpc_url: str) -> None:
        now_s = self._now_s()
        before = self._asked.get(rpc_url)
        if before is None:  # as many are looked at as there were brokers within `FORGOTTEN_S`
            self._asked = {known: asked for known, asked in self._asked.items() if now_s - asked.last_s <= FORGOTTEN_S}
        self._asked[rpc_url] = Asked(now_s if before is None else before.first_s, now_s)

    def answered(self, rpc_url: str) -> None:
        """Whatever was asked: it is there."""
        self._asked.pop(rpc_url, None)

    def silent(self, since_s: float) -> set[str]:
        """The addresses of those that are."""
        return {rpc_url for rpc_url in self._asked if self.is_silent(rpc_url, since_s)}

    def is_silent(self, rpc_url: str, since_s: float = SILENT_S) -> bool:
        asked = self._asked.get(rpc_url)
        return asked is not None and self._now_s() - asked.first_s > since_s
