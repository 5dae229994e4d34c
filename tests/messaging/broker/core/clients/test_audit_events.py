"""The table of audit events: what is counted, what is bounded, who is heard in a flood, and what is taken when."""

from __future__ import annotations

from typing import Any

from messaging.broker.core.clients.audit_events import (
    BYTES_MAX,
    DONE_BYTES_MAX,
    FURTHER_BYTES_MAX,
    REFUSED_BYTES_MAX,
    TAKEN_MAX,
    AuditEvents,
    Entry,
    Event,
)
from messaging.broker.core.memory.memory_limiter import MemoryLimiter

INNOCENT = Event("broker.denied", "app@acme", "k-acme", "10.0.0.9", "acme", "u1", "persistent://acme/orders/t", "lacks consume")


def drained(table: AuditEvents) -> list[Entry]:
    """Everything, taken and acknowledged page by page."""
    entries: list[Entry] = []
    while page := table.take(entries[-1].sequence if entries else 0):
        entries += page
    return entries


def attack(number: int, **fields: Any) -> Event:
    return Event("broker.denied", "x@evil", "k-evil", "10.6.6.6", resource=f"persistent://a/b/{number}")._replace(**fields)


def test_equal_events_are_one_entry_with_first_and_last() -> None:
    table = AuditEvents()
    for at_ms in (1_000, 3_000, 2_000):
        table.record(INNOCENT, at_ms, f"before {at_ms}", f"after {at_ms}")
    (entry,) = table.take(0)
    assert (entry.event, entry.count, entry.first_ms, entry.last_ms) == (INNOCENT, 3, 1_000, 3_000)
    assert (entry.before, entry.after) == ("before 1000", "after 2000")
    assert (table.recorded, table.further, table.pending) == (3, 0, 3)


def test_events_taken_come_again_until_they_are_acknowledged_and_do_not_change() -> None:
    table = AuditEvents()
    table.record(INNOCENT, 1)
    first = table.take(0)
    table.record(INNOCENT, 2)  # an equal one afterwards is another entry
    assert table.take(0) == first and first[0].count == 1
    (second,) = table.take(first[0].sequence)
    assert (second.sequence, second.count, second.first_ms) == (2, 1, 2)
    assert table.take(1) == [second]
    assert table.take(2) == []
    assert (table.pending, table.bytes) == (0, 0)


def test_another_goes_on_with_what_one_held() -> None:
    """Numbers, places and what was not handed out."""
    table, following = AuditEvents(), AuditEvents()
    for _ in range(3):
        table.record(INNOCENT, 1)
    table.take(0)
    table.record(INNOCENT, 2)
    following.take_up(table.held(), table.sequence)
    assert (following.pending, following.bytes, following.shares) == (4, table.bytes, table.shares)
    assert [(entry.sequence, entry.count) for entry in following.take(0)] == [(1, 3)]
    following.record(INNOCENT, 3)  # an equal one is still counted with the one that waits
    assert [(entry.sequence, entry.count, entry.last_ms) for entry in following.take(1)] == [(2, 2, 3)]
    assert following.take(2) == [] and (following.pending, following.bytes, dict(following.shares)) == (0, 0, {})


def test_an_acknowledgement_of_the_future_takes_nothing_away() -> None:
    table = AuditEvents()
    table.record(INNOCENT, 1)
    assert [entry.count for entry in table.take(10**9)] == [1]


def test_pages_are_bounded_and_in_order() -> None:
    table = AuditEvents()
    for number in range(TAKEN_MAX + 5):
        table.record(attack(number, action="subscription.create"), number)
    assert (len(table.take(0)), table.waiting) == (TAKEN_MAX, 5)
    entries = drained(table)
    assert [entry.sequence for entry in entries] == list(range(1, TAKEN_MAX + 6))
    assert [entry.first_ms for entry in entries] == list(range(TAKEN_MAX + 5))


FLOODS = {
    "one key, many topics": lambda n: attack(n),
    "one address, no key": lambda n: attack(n, role="", key_id="", reason=f"r{n}"),
    "many keys of one tenant": lambda n: attack(n, key_id=f"k{n}"),
    "many addresses, no key": lambda n: attack(n, role="", key_id="", address=f"10.7.{n // 256}.{n % 256}"),
    "at many tenants": lambda n: attack(n, tenant=f"t{n}", tenant_uid=f"u{n}"),
    "at one tenant, the innocent one": lambda n: attack(n, tenant="acme", tenant_uid="u1"),
    "the longest names": lambda n: attack(n, resource="é" * 5_000 + str(n), role="x" * 5_000, reason="é" * 9_000, key_id=f"k{n}"),
}


def test_no_flood_hides_anybody_else_and_nothing_is_lost_from_the_counts() -> None:
    for name, event in FLOODS.items():
        table = AuditEvents()
        for number in range(4_000):
            table.record(event(number), number)
        table.record(INNOCENT, 50_000)
        assert table.bytes <= REFUSED_BYTES_MAX // 2 + FURTHER_BYTES_MAX, f"{name}: one attacker has more than half"
        entries = drained(table)
        assert INNOCENT in [entry.event for entry in entries], name
        assert sum(entry.count for entry in entries) == table.recorded == 4_001, name
        assert table.further, name
        assert (table.pending, table.bytes, dict(table.shares)) == (0, 0, {}), name


def test_events_that_did_not_fit_are_counted_with_their_caller_and_their_tenant() -> None:
    table = AuditEvents()
    for number in range(5_000):
        table.record(attack(number, tenant="acme", tenant_uid="u1"), number)
    (more,) = [entry for entry in drained(table) if entry.event.further]
    assert more.count == table.further
    assert more.event == Event("broker.denied", "x@evil", "k-evil", "", "acme", "u1", further=True)


def test_everything_at_once_stays_within_its_bytes() -> None:
    table = AuditEvents()
    for number in range(15_000):
        table.record(
            attack(number, role=f"x@t{number % 997}", key_id=f"k{number}", tenant=f"v{number % 991}", tenant_uid="u"), number
        )
    assert table.bytes <= BYTES_MAX - DONE_BYTES_MAX
    assert sum(entry.count for entry in drained(table)) == 15_000


def test_a_flood_of_refusals_makes_few_records_and_hides_nothing_that_was_done() -> None:
    """A record stays in the database for ever: whoever is refused ten thousand times in a minute adds some thirty."""
    table = AuditEvents()
    for number in range(10_000):
        table.record(attack(number), number)
    for number in range(300):
        table.record(attack(number, action="subscription.create", tenant="evil", tenant_uid="u9"), number)
    entries = drained(table)
    assert sum(entry.event.action == "broker.denied" for entry in entries) < 40
    made = [entry for entry in entries if entry.event.action == "subscription.create"]
    assert len(made) == 300 and not any(entry.event.further for entry in made)


def test_recording_costs_the_same_whatever_is_held() -> None:
    """Two look-ups at most of what counts further events: no walk over the table."""
    table = AuditEvents()
    for number in range(4_000):
        table.record(attack(number, key_id=f"k{number}", role=f"x@t{number % 50}"), number)

    class Counted(dict[Event, Entry]):
        looks = 0

        def get(self, *arguments: object) -> Entry | None:  # type: ignore[override]
            self.looks += 1
            return super().get(*arguments)  # type: ignore[call-overload]

        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("a walk over what is held")

    table.untaken = Counted(table.untaken)
    table.record(attack(99_999), 1)
    assert table.untaken.looks <= 4


def test_entries_are_charged_to_the_platform_until_they_are_in_the_audit_log() -> None:
    """They were 4 MiB that no account knew of."""
    account = MemoryLimiter(256 << 20).records
    table = AuditEvents(account)
    for number in range(10_000):
        table.record(Event("broker.denied", "role", f"key {number}", "10.0.0.1", "acme", "uid", f"resource {number}"), 1)
        table.record(Event("subscription.create", "role", f"key {number}", "10.0.0.1", "acme", "uid", f"resource {number}"), 1)
    assert account.tenants == {"": table.bytes}
    assert account.used_bytes > 100 << 10
    acknowledged = 0
    while taken := table.take(acknowledged):
        acknowledged = taken[-1].sequence
    assert account.used_bytes == 0


def test_of_a_small_budget_they_take_a_part() -> None:
    account = MemoryLimiter(16 << 20).records
    table = AuditEvents(account)
    for number in range(20_000):
        event = Event(
            "subscription.create", f"r@{number}", f"key {number}", "10.0.0.1", f"t{number}", f"u{number}", f"resource {number}"
        )
        table.record(event, 1)
    assert account.limit_bytes // 8 < table.bytes <= account.limit_bytes // 4 + (400 << 10)
