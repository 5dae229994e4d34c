"""Steps of a test of a managed ledger."""

from __future__ import annotations

from messaging.storage.ledger_store import (
    DiskFull,
    Fence,
)
from messaging.storage.meta_store import TopicRecord
from tests.support.storage.managed_world import World
from tests.support.waiting import eventually


async def new_world(**limits: int) -> World:
    return await World(**limits).start()  # type: ignore[arg-type]


async def confirmed(world: World, count: int) -> None:
    await eventually(lambda: len(world.outcomes) >= count)


async def rolled(world: World, ledgers: int) -> None:
    """The topic has that many ledgers, and rolling has come to its end."""
    await eventually(
        lambda: (
            len(world.ledger.record.ledgers) == ledgers
            and all(ledger.last_entry is not None for ledger in world.ledger.record.ledgers[:-1])
        )
    )


async def full(fence: Fence, record: TopicRecord) -> TopicRecord:
    raise DiskFull("no space")
