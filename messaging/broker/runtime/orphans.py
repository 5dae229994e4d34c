"""Deletes ledgers that nothing refers to: those that a crash left behind once after each start, when the rush of reconnecting
clients is over, and those of this run from time to time."""

from __future__ import annotations

import asyncio

import structlog

from messaging.storage.ledger_store import Fenced, StoreError
from messaging.storage.managed.orphans import Collected, collect_left, collect_orphans
from messaging.storage.managed.storage import Storage

log = structlog.get_logger("broker.orphans")

COLLECT_AFTER_S = 15.0
COLLECT_DOUBTFUL_S = 3600.0  # after a crash, where the metadata might be a backup that was taken while the broker ran
COLLECT_LEFT_S = 60.0
LOOP, LEFT_LOOP = "collect_orphans", "collect_left_ledgers"


async def collect_after_start(storage: Storage, *, certain: bool) -> None:
    """`certain`: the metadata is what the last owner left. What fails is tried again by the next start, as nothing waits for it."""
    health = storage.background.register(LOOP)
    await asyncio.sleep(COLLECT_AFTER_S if certain else COLLECT_DOUBTFUL_S)
    try:
        collected = await collect_orphans(storage)
    except Fenced:
        return  # they are another's to collect
    except StoreError as error:
        log.error("orphans.not_collected", error=str(error))
        health.failed(error)
        return
    health.succeeded()
    _tell(collected)


async def collect_of_this_run(storage: Storage) -> None:
    """Raises `StoreError`: what is left is tried again."""
    if storage.left:
        try:
            _tell(await collect_left(storage))
        except Fenced:
            storage.left.clear()  # they are another's to collect


def _tell(collected: Collected) -> None:
    if collected.ledgers:
        log.info("orphans.collected", ledgers=collected.ledgers, bytes=collected.length_bytes)
