"""Deduplication against a model that remembers everything: stored once, whatever is sent again, in whatever pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.memory.memory_limiter import MemoryAccount, MemoryLimiter
from messaging.broker.core.producers.deduplication import (
    NAMES_KEPT,
    SLICE_NAMES,
    TOPIC_WINDOW_ENTRIES,
    WINDOW_ENTRIES,
    Deduplication,
)
from messaging.broker.core.producers.producer_sequences import NOWHERE
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position

FEW_NAMES = 40  # of a slice
NAME = b"producer"


def sent(sequence_id: int, highest: int = 0) -> SendFrame:
    return SendFrame(1, sequence_id, 0, 0, 1, 1, highest, 0)


def take(dedup: Deduplication, name: bytes, block: list[SendFrame], now_ms: int = 1) -> tuple[list[SendFrame], bool]:
    """As for a block that the log takes."""
    fresh, repeated = dedup.sift(name, block, now_ms)
    dedup.took(name, fresh, now_ms)
    return fresh, repeated


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), max_size=20), st.booleans())
def test_each_sequence_id_is_stored_once_and_found_again(reads: list[list[int]], crash: bool) -> None:
    dedup = Deduplication()
    stored: list[int] = []  # the log: entry n holds stored[n]
    highest = -1
    for read in reads:
        fresh, repeated = take(dedup, NAME, [sent(number) for number in read])
        expected = []
        for number in read:
            if number > highest:
                highest = number
                expected.append(number)
        assert [frame.sequence_id for frame in fresh] == expected
        assert repeated == (len(expected) != len(read))
        if fresh:
            dedup.stored(NAME, fresh, Position(7, len(stored)), 1)
            stored += expected
        if crash:
            # A restart with nothing but the log.
            dedup = Deduplication.restore(dedup.snapshot(Position(7, -1)) if not stored else None)
            dedup.replay(NAME, [sent(number) for number in stored], Position(7, 0), 1)
        for entry, number in enumerate(stored):
            assert dedup.position_of(NAME, number) == Position(7, entry)
        assert dedup.highest_taken(NAME) == highest


def test_a_batch_counts_up_to_its_last_message() -> None:
    dedup = Deduplication()
    fresh, _ = take(dedup, NAME, [sent(0, 9), sent(10, 19)], 1)
    dedup.stored(NAME, fresh, Position(7, 0), 1)
    assert dedup.highest_taken(NAME) == 19
    assert dedup.sift(NAME, [sent(10, 19)], 1) == ([], True)
    assert dedup.position_of(NAME, 10) == Position(7, 1)
    fresh, repeated = take(dedup, NAME, [sent(10, 19), sent(20, 29)])
    assert ([frame.sequence_id for frame in fresh], repeated) == ([20], True)


def test_a_message_taken_and_not_stored_is_a_duplicate_already_and_not_in_a_snapshot() -> None:
    dedup = Deduplication()
    take(dedup, NAME, [sent(0), sent(1)])
    assert dedup.sift(NAME, [sent(1)], 1) == ([], True)
    assert Deduplication.restore(dedup.snapshot(Position(7, 3))).highest_taken(NAME) == -1


def test_a_message_sifted_and_then_refused_by_the_log_is_no_duplicate() -> None:
    dedup = Deduplication()
    block = [sent(0), sent(1)]
    assert dedup.sift(NAME, block, 1) == (block, False)
    assert dedup.sift(NAME, block, 1) == (block, False)
    assert dedup.highest_taken(NAME) == -1 and not dedup.names


def test_the_window_is_bounded_and_older_ids_are_nowhere() -> None:
    dedup = Deduplication()
    count = 5 * WINDOW_ENTRIES
    for number in range(count):
        fresh, _ = take(dedup, NAME, [sent(number)], 1)
        dedup.stored(NAME, fresh, Position(7, number), 1)
    assert dedup.position_of(NAME, 0) == NOWHERE
    assert dedup.position_of(NAME, count - 1) == Position(7, count - 1)
    assert dedup.position_of(NAME, count - WINDOW_ENTRIES) == Position(7, count - WINDOW_ENTRIES)


def test_a_snapshot_keeps_names_numbers_and_the_position_that_trimming_must_not_pass() -> None:
    dedup = Deduplication()
    for name, number in ((b"a", 5), ("ä".encode(), 2**62)):
        fresh, _ = take(dedup, name, [sent(number)], 1)
        dedup.stored(name, fresh, Position(7, 0), 1)
    again = Deduplication.restore(dedup.snapshot(Position(9, 4)))
    assert again.snapshot_position == Position(9, 4)
    assert (again.highest_taken(b"a"), again.highest_taken("ä".encode()), again.highest_taken(b"b")) == (5, 2**62, -1)


def test_names_that_send_nothing_are_forgotten() -> None:
    dedup = Deduplication()
    take(dedup, b"old", [sent(1)], 1_000)
    take(dedup, b"new", [sent(1)], 2_000)
    dedup.forget_unused(1_500)
    assert list(dedup.names) == [b"new"]


def test_a_name_beyond_the_most_takes_the_place_of_one_unused_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went at once itself: from the 100,001st name of a topic on, nothing that a new producer sent again was a duplicate."""
    monkeypatch.setattr("messaging.broker.core.producers.deduplication.NAMES_MAX", 3)
    dedup = Deduplication()
    for now_ms, name in enumerate((b"a", b"b", b"c", b"d"), 1):
        take(dedup, name, [sent(7)], now_ms)
    assert set(dedup.names) == {b"b", b"c", b"d"}
    assert take(dedup, b"d", [sent(7)], 5) == ([], True)


def test_memory_for_all_names_of_a_topic_is_bounded() -> None:
    """Every name had 2,000 positions: 380 MB for a thousand producers of a topic."""
    dedup, names = Deduplication(), [b"%d" % number for number in range(500)]
    for name in names:
        take(dedup, name, [sent(0)])
    for name in names:
        for sequence_id in range(300):
            dedup.stored(name, [sent(sequence_id)], Position(1, sequence_id), 1)
        assert dedup.position_of(name, 299) == Position(1, 299)
    assert sum(sequences.remembered_entries for sequences in dedup.names.values()) <= 2 * TOPIC_WINDOW_ENTRIES


def charged(limit_bytes: int) -> tuple[Deduplication, MemoryAccount]:
    account = MemoryLimiter(-(-16 * limit_bytes // 3)).records
    assert account.limit_bytes == limit_bytes
    return Deduplication(Charge(account, "acme")), account


def publish(dedup: Deduplication, name: bytes, first: int, last: int, now_ms: int = 1) -> None:
    block = [sent(number) for number in range(first, last)]
    fresh, _ = take(dedup, name, block, now_ms)
    dedup.stored(name, fresh, Position(7, first), 1)


def test_names_and_remembered_ids_are_charged_to_their_tenant_and_given_back() -> None:
    """They were kept uncharged: 50 MB a topic."""
    dedup, account = charged(64 << 20)
    for number in range(1_000):
        publish(dedup, b"%d" % number, 0, 100, now_ms=number)
    assert account.tenants == {"acme": account.used_bytes}
    assert account.used_bytes == pytest.approx(dedup.memory_bytes, abs=16 << 10)
    assert dedup.memory_bytes > 1_000 * (512 + 24 * TOPIC_WINDOW_ENTRIES // 1_000)
    dedup.forget_unused(990)
    assert account.used_bytes == pytest.approx(dedup.memory_bytes, abs=16 << 10)
    assert dedup.memory_bytes < 10 * (512 + 3 + 24 * 100) + 1
    dedup.close()
    dedup.close()
    assert account.used_bytes == 0 and not account.tenants


def test_where_memory_is_short_fewer_entries_are_remembered_and_duplicates_are_still_known() -> None:
    dedup, account = charged(256 << 10)
    for number in range(0, 20_000, 100):
        for name in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"):
            publish(dedup, name, number, number + 100)
    assert account.used_bytes <= account.limit_bytes
    assert dedup.position_of(b"a", 19_999) == Position(7, 19_999)
    assert dedup.position_of(b"a", 19_999 - WINDOW_ENTRIES + 1) == NOWHERE
    assert take(dedup, b"a", [sent(19_999 - WINDOW_ENTRIES)]) == ([], True)


def test_where_memory_is_short_names_unused_longest_go_but_for_a_few() -> None:
    dedup, account = charged(256 << 10)
    for number in range(2_000):
        publish(dedup, b"%d" % number, 0, 1, now_ms=number)
    assert account.used_bytes <= account.limit_bytes
    before = len(dedup.names)
    assert NAMES_KEPT <= before < 500
    assert b"1999" in dedup.names and b"0" not in dedup.names
    account.take("other", account.limit_bytes)
    for number in range(2_000, 4_000):
        publish(dedup, b"%d" % number, 0, 1, now_ms=number)
    assert NAMES_KEPT <= len(dedup.names) < before


def test_a_tenant_with_many_topics_takes_no_more_than_its_part_and_others_forget_nothing() -> None:
    """A hundred names were kept of each topic and charged, however little was left: with some hundred topics one tenant filled the
    account, and topics of others forgot their names and windows."""
    account = MemoryLimiter(16 << 20).records
    topics = [Deduplication(Charge(account, "crowd")) for _ in range(100)]
    for dedup in topics:
        for number in range(NAMES_KEPT):
            publish(dedup, b"%d" % number, 0, 1, now_ms=number)
    assert account.tenants["crowd"] <= account.limit_bytes // 2
    assert sum(dedup.memory_bytes for dedup in topics) <= account.limit_bytes // 2 + 100 * 2048
    victim = Deduplication(Charge(account, "acme"))
    for number in range(2 * NAMES_KEPT):
        publish(victim, b"%d" % number, 0, 1, now_ms=number)
    publish(victim, b"199", 1, 1001, now_ms=1_000)
    assert len(victim.names) == 2 * NAMES_KEPT
    assert victim.position_of(b"199", 1_000 - TOPIC_WINDOW_ENTRIES // (2 * NAMES_KEPT) + 1) != NOWHERE


def test_a_topic_that_holds_little_keeps_some_names_however_full_the_account_is() -> None:
    account = MemoryLimiter(64 << 20).records
    account.take("others", account.limit_bytes)
    topics = [Deduplication(Charge(account, "acme")) for _ in range(20)]
    for dedup in topics:
        for number in range(NAMES_KEPT + 50):
            publish(dedup, b"%d" % number, 0, 1, now_ms=number)
    assert len(topics[0].names) >= NAMES_KEPT
    assert account.tenants["acme"] <= account.limit_bytes // 16 + NAMES_KEPT * 600


def test_small_topics_are_charged_too() -> None:
    """Each had up to 16 KiB that nobody counted."""
    account = MemoryLimiter(64 << 20).records
    topics = [Deduplication(Charge(account, "acme")) for _ in range(100)]
    for dedup in topics:
        publish(dedup, b"one", 0, 100)
    assert account.used_bytes >= sum(dedup.memory_bytes for dedup in topics) * 3 // 4
    for dedup in topics:
        dedup.close()
    assert account.used_bytes == 0


def test_the_window_grows_again_when_there_is_memory() -> None:
    dedup, account = charged(4 << 20)
    account.take("other", account.limit_bytes)
    publish(dedup, b"a", 0, 2_000)
    account.give("other", account.limit_bytes)
    for _ in range(10):
        dedup.widen()
    for first in range(2_000, 6_000, 500):
        publish(dedup, b"a", first, first + 500)
    assert dedup.position_of(b"a", 6_000 - WINDOW_ENTRIES) == Position(7, 6_000 - WINDOW_ENTRIES)


def test_names_of_a_topic_are_bounded_in_bytes_and_so_is_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 long names made a snapshot of 100 MB."""
    monkeypatch.setattr("messaging.broker.core.producers.deduplication.NAMES_BYTES_MAX", 50_000)
    dedup = Deduplication()
    for number in range(1_000):
        take(dedup, b"%0250d" % number, [sent(1)], number)
    assert len(dedup.names) <= 200
    assert len(dedup.snapshot(Position(7, 0))) < 60_000
    assert dedup.highest_taken(b"%0250d" % 999) == 1


@given(st.lists(st.tuples(st.integers(0, 2 * FEW_NAMES), st.integers(1, 3)), max_size=8), st.integers(0, 3))
def test_blocks_that_are_stored_while_a_snapshot_is_packed_are_known_after_it(meanwhile: list[tuple[int, int]], at: int) -> None:
    """The snapshot and the blocks after its position give the state back, whichever slice had which of them already."""
    with pytest.MonkeyPatch.context() as patch:
        # A hundred examples with thousands took minutes.
        patch.setattr("messaging.broker.core.producers.deduplication.SLICE_NAMES", FEW_NAMES)
        _store_while_packing(meanwhile, at)


def _store_while_packing(meanwhile: list[tuple[int, int]], at: int) -> None:
    dedup = Deduplication()
    for number in range(2 * FEW_NAMES):
        publish(dedup, b"%d" % number, 0, 1)
    parts, entry, blocks = [], 10_000, []
    for index, part in enumerate(dedup.snapshot_slices(Position(7, entry - 1))):
        parts.append(part)
        if index == at:
            for number, count in meanwhile:
                name = b"%d" % number
                first = dedup.highest_taken(name) + 1
                block = [sent(sequence_id) for sequence_id in range(first, first + count)]
                take(dedup, name, block)
                dedup.stored(name, block, Position(7, entry), 1)
                blocks.append((name, block, Position(7, entry)))
                entry += count
    assert len(parts) == 3
    again = Deduplication.restore(b"".join(parts))
    assert again.snapshot_position == Position(7, 9_999)
    for name, block, first_position in blocks:
        again.replay(name, block, first_position, 1)
    assert {name: sequences.taken for name, sequences in again.names.items()} == {
        name: sequences.taken for name, sequences in dedup.names.items()
    }


def test_a_snapshot_is_read_in_slices() -> None:
    dedup = Deduplication()
    for number in range(3 * SLICE_NAMES + 1):
        take(dedup, b"%d" % number, [sent(0)])
    assert len(list(Deduplication().restore_slices(dedup.snapshot(Position(7, 0))))) == 3
