"""Which backlog reads begin: few at a time, tenants in turn, and only where there is memory."""

from __future__ import annotations

from messaging.broker.core.backlog.read import BacklogRead
from messaging.broker.core.backlog.read_queue import READS_MAX, ReadQueue
from messaging.broker.core.memory.memory_limiter import MemoryAccount, MemoryLimiter
from messaging.storage.ledger_store import Position

SIZE = 1000


def account_for(reads: int) -> MemoryAccount:
    """Room for so many, of which a tenant alone may have half."""
    return MemoryLimiter(4 * reads * SIZE).catch_up


def queue_of(account: MemoryAccount, **asked: int) -> ReadQueue[str]:
    """So many reads wait for each tenant; the owner of a read is its tenant and its number."""
    queue: ReadQueue[str] = ReadQueue(account)
    for tenant, count in asked.items():
        for number in range(count):
            queue.ask(tenant, f"{tenant}{number}", BacklogRead(Position(1, number), SIZE, 1))
    return queue


def begun(queue: ReadQueue[str]) -> list[str]:
    owners = []
    while (following := queue.following()) is not None:
        owners.append(following[0])
    return owners


def test_few_are_under_way_at_a_time() -> None:
    queue = queue_of(account_for(100), acme=5)
    assert begun(queue) == ["acme0", "acme1"] and queue.under_way == READS_MAX
    assert begun(queue) == [] and not queue.short_of_memory
    queue.ended()
    assert begun(queue) == ["acme2"]
    assert (queue.begun, queue.waiting) == (3, 2)


def test_tenants_take_turns() -> None:
    queue = queue_of(account_for(100), acme=5, globex=1)
    assert begun(queue) == ["acme0", "globex0"]


def test_a_read_waits_for_memory_and_begins_when_another_gives_it_back() -> None:
    account = account_for(2)
    queue = queue_of(account, acme=2)
    assert begun(queue) == ["acme0"] and queue.short_of_memory
    assert account.used_bytes == SIZE
    queue.resized("acme", SIZE, 0)
    assert begun(queue) == ["acme1"] and account.used_bytes == SIZE


def test_memory_denied_to_one_tenant_is_there_for_another() -> None:
    account = account_for(4)
    account.take("acme", 2 * SIZE)
    queue = queue_of(account, acme=1, globex=1)
    assert begun(queue) == ["globex0"] and queue.waiting == 1


def test_bytes_that_came_count_instead_of_those_expected() -> None:
    account = account_for(100)
    queue = queue_of(account, acme=1)
    assert begun(queue) == ["acme0"]
    queue.resized("acme", SIZE, 3 * SIZE)
    assert account.tenants == {"acme": 3 * SIZE}
    queue.resized("acme", 3 * SIZE, 0)
    assert account.tenants == {}


def test_a_read_that_is_not_wanted_any_more_does_not_begin() -> None:
    queue: ReadQueue[str] = ReadQueue(account_for(100))
    read = BacklogRead(Position(1, 0), SIZE, 1)
    queue.ask("acme", "a", read)
    queue.withdraw("acme", "a", read)
    queue.withdraw("acme", "a", read)
    assert queue.following() is None and queue.waiting == 0
