"""Work that workers do on request: whoever runs the workers says here how they are told.

A request is recorded elsewhere, and a scheduled run finds it there; telling the workers only makes it begin at once.
"""

from __future__ import annotations

from collections.abc import Callable

COMPACTION = "compaction"
POLICY_EVENTS = "policy_events"
ISSUER_KEYS = "issuer_keys"

begun_by: dict[str, Callable[[], None]] = {}  # by work: asks the workers to begin it; never raises


def requested(work: str) -> None:
    begin = begun_by.get(work)
    if begin is not None:
        begin()
