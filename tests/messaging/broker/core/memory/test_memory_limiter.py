"""The one budget: sums that always agree, parts that leave room for others, caches that give way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.newest import CHUNK_ENTRY_BYTES
from messaging.broker.core.delayed.seal_size import seal_entries
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.settings import Settings

TENANTS = st.sampled_from(["acme", "globex", "initech"])
ACCOUNTS = st.sampled_from(["ingress", "egress", "catch_up", "sessions", "cursors", "records"])


def test_the_limits_of_what_does_not_give_way_are_the_budget() -> None:
    memory_limiter = MemoryLimiter(1 << 20)
    assert sum(account.limit_bytes for account in memory_limiter.accounts if account is not memory_limiter.tail) == 1 << 20


@given(st.lists(st.tuples(ACCOUNTS, TENANTS, st.integers(1, 1 << 16), st.booleans())))
def test_tenants_that_keep_to_the_rule_take_no_more_than_there_is(steps: list[tuple[str, str, int, bool]]) -> None:
    """Whatever is taken within the rule: no account passes its limit, and so all together stay within the budget."""
    memory_limiter = MemoryLimiter(1 << 18)
    taken: list[tuple[str, str, int]] = []
    for name, tenant, size, gives in steps:
        account = getattr(memory_limiter, name)
        if gives and taken:
            back = taken.pop()
            getattr(memory_limiter, back[0]).give(*back[1:])
        elif account.allows(tenant, size):
            account.take(tenant, size)
            taken.append((name, tenant, size))
        for memory_account in memory_limiter.accounts:
            mine = [size for held_in, _, size in taken if held_in == memory_account.name]
            assert memory_account.used_bytes == sum(mine) == sum(memory_account.tenants.values())
            assert (
                memory_account.used_bytes <= memory_account.limit_bytes or len(mine) == 1
            )  # one thing alone may be larger than the account
            assert 0 not in memory_account.tenants.values()
        assert memory_limiter.used_bytes == sum(account.used_bytes for account in memory_limiter.accounts)


@given(st.lists(st.integers(1, 1 << 14), max_size=200), st.integers(1, 1 << 13))
def test_a_newcomer_finds_room_whatever_one_tenant_does(sizes: list[int], size: int) -> None:
    account = MemoryLimiter(1 << 18).catch_up
    for asked in sizes:
        if account.allows("greedy", asked):
            account.take("greedy", asked)
    assert account.allows("newcomer", size)


def test_a_tenant_takes_no_more_than_is_left() -> None:
    account = MemoryLimiter(4000).catch_up  # 1000 of it
    assert account.share("acme") == 500
    account.take("acme", 500)
    assert account.share("acme") == 0
    assert not account.allows("acme", 1)
    assert account.share("globex") == 250
    account.give("acme", 500)
    assert account.share("acme") == 500


@pytest.mark.parametrize(
    ("others", "own", "allowed"),
    [
        (0, 0, True),  # nobody else: even what is larger than the account
        (1, 0, False),  # it does not fit
        (0, 1, False),
    ],
)
def test_a_thing_larger_than_the_account_waits_until_it_is_alone(others: int, own: int, allowed: bool) -> None:
    account = MemoryLimiter(4000).catch_up
    for tenant, size in (("globex", others), ("acme", own)):
        if size:
            account.take(tenant, size)
    assert account.allows("acme", 2000) is allowed


def test_a_large_thing_beyond_the_part_of_a_tenant_that_holds_little_is_not_starved() -> None:
    account = MemoryLimiter(4000).catch_up
    account.take("acme", 100)  # as it always does
    assert account.share("acme") < 700
    assert account.allows("acme", 700)
    account.take("acme", 100)
    assert not account.allows("acme", 700)


def test_caches_shrink_by_what_is_over_the_budget() -> None:
    memory_limiter = MemoryLimiter(1000)
    asked: list[int] = []

    def shrink(size: int) -> None:
        asked.append(size)
        memory_limiter.tail.give("", size)

    memory_limiter.caches.append(shrink)
    memory_limiter.tail.take("", 400)
    memory_limiter.ingress.take("acme", 500)
    assert asked == []
    memory_limiter.egress.take("acme", 150)
    assert asked == [50]
    assert memory_limiter.used_bytes == 1000


def test_one_cache_after_the_other_gives_way() -> None:
    memory_limiter = MemoryLimiter(1000)
    asked: list[tuple[str, int]] = []

    def first(size: int) -> None:
        asked.append(("first", size))
        memory_limiter.tail.give("", 30)  # which is all that it has

    def second(size: int) -> None:
        asked.append(("second", size))
        memory_limiter.tail.give("", size)

    memory_limiter.caches += [first, second]
    memory_limiter.tail.take("", 400)
    memory_limiter.ingress.take("acme", 650)
    assert asked == [("first", 50), ("second", 20)]
    asked.clear()
    memory_limiter.egress.take("acme", 10)
    assert asked == [("first", 10)]


def test_a_tenant_may_have_a_hundred_million_delayed_messages_with_the_default_budget() -> None:
    account = MemoryLimiter(Settings().memory_budget_bytes).records
    pending = {ledger_id: BitMap(range(10_000_000)) for ledger_id in range(10)}
    newest = 2 * CHUNK_ENTRY_BYTES * seal_entries(account.limit_bytes)
    account.take("acme", entry_sets.memory_bytes(pending) + newest)
    assert account.allows("acme", 64_000)


def test_nothing_may_be_taken_and_given_beside_something() -> None:
    """An empty message was peeked at while its tenant took memory and gave it back: a KeyError, and HTTP 500."""
    account = MemoryLimiter(1000).egress
    account.take("acme", 0)
    assert account.tenants == {}
    account.take("acme", 100)
    account.give("acme", 100)
    account.give("acme", 0)
    assert (account.tenants, account.used_bytes) == ({}, 0)
