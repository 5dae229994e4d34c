"""Faults that a test injects, counted: one that never happens proves nothing, so the test that asked for it fails.

Whatever injects a fault asks for it here and says when it fires; `every_fault_fires` in tests/conftest.py looks after each test.
"""

from __future__ import annotations


class Fault:
    """Requested by a test. `surely`: it must fire before the test ends; a search by random steps may also miss it."""

    def __init__(self, name: str, *, surely: bool = True) -> None:
        self.name = name
        self.fired = 0
        self.surely = surely
        _asked.append(self)

    def fire(self) -> None:
        self.fired += 1


_asked: list[Fault] = []


def forget() -> None:
    _asked.clear()


def unfired() -> list[str]:
    return [fault.name for fault in _asked if fault.surely and not fault.fired]
