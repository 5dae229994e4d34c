"""How a consumer of a Key_Shared subscription wants keys to be shared out. Pure."""

from __future__ import annotations

from typing import NamedTuple


class KeySharedMode(NamedTuple):
    """All consumers of a subscription agree on all of it but the ranges."""

    sticky: bool = False  # each consumer names its hash ranges; else they are split automatically
    out_of_order: bool = False  # a key may go to another consumer while the former one holds messages of it
    ranges: tuple[tuple[int, int], ...] = ()  # (first, last), for `sticky`

    @property
    def name(self) -> str:
        """Pulsar's name."""
        return "STICKY" if self.sticky else "AUTO_SPLIT"

    @property
    def described(self) -> str:
        return f"{self.name} {'with' if self.out_of_order else 'without'} out-of-order delivery"


AUTO_SPLIT = KeySharedMode()


class KeySharedSettings(NamedTuple):
    """What the operator chose for automatic splitting."""

    consistent_hashing: bool = True  # else hash ranges that are split in half
    points: int = 100  # of each consumer on the hash ring


DEFAULT_SETTINGS = KeySharedSettings()
