"""The search for an entry over footers, against looking at every segment."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.storage.local.device.open_files import OpenFiles
from messaging.storage.local.format.records import seed_of
from messaging.storage.local.format.segment import PAGE_BYTES, Segment, name_of
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.read.footers import BadFooter
from messaging.storage.local.read.index import EntryIndex
from messaging.storage.local.reclaim.dead_bytes import bytes_by_segment
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.seal import write_footer
from tests.support.examples import examples
from tests.support.storage.fake_disk import FakeDisk

RECORD_BYTES = 100


class Segments:
    """Sealed segments with footers and nothing else; entries of a ledger go on from segment to segment."""

    def __init__(self) -> None:
        self.disk = FakeDisk()
        self.files = OpenFiles(self.disk, 4)
        self.segments: dict[int, Segment] = {}
        self.states: dict[int, LedgerState] = {}
        self.where: dict[tuple[int, int], int] = {}  # (ledger, entry) -> segment
        self.opened: list[Path] = []
        self.damaged: list[Exception] = []

    def add(self, number: int, entries: dict[int, int]) -> None:
        """A segment with so many entries of each ledger."""
        path = Path("/log") / name_of(number, 0)
        segment = Segment(number, 0, path, seed_of(1, number, 0), 1 << 20)
        active = ActiveSegment(segment, self.disk.open(path, create=True), 64)
        for ledger_id, count in entries.items():
            state = self.states.setdefault(ledger_id, LedgerState(ledger_id, {}, number))
            for _ in range(count):
                entry = state.written()[0] + 1
                active.block(state, entry, entry, active.offset, RECORD_BYTES, 10)
                active.offset += 2 * RECORD_BYTES
                self.where[ledger_id, entry] = number
        segment.data_stop = active.offset
        write_footer(active)
        for extents in active.touched:
            state = self.states[extents.ledger_id]
            state.last_entry, state.length_bytes = state.written()
            state.release_index(extents)
        self.segments[number] = segment

    def lose(self, number: int) -> None:
        del self.segments[number]

    def locator(self) -> EntryIndex:
        return EntryIndex(self.segments, self.files, self.damaged.append)


PRESENCE = st.lists(st.dictionaries(st.integers(1, 4), st.integers(1, 3), max_size=4), min_size=1, max_size=24)


@settings(max_examples=examples(60), deadline=None)
@given(PRESENCE, st.randoms(use_true_random=False))
def test_every_entry_is_found_where_it_is(presence: list[dict[int, int]], random: Random) -> None:
    world = Segments()
    for number, entries in enumerate(presence, 1):
        world.add(number, entries)
    places = list(world.where.items())
    random.shuffle(places)
    locator = world.locator()  # with what it remembers of earlier finds
    for (ledger_id, entry), number in places:
        state = world.states[ledger_id]
        for index in (locator, world.locator()):
            place = index.locate(ledger_id, entry, state.created_segment, state.last_segment)
            assert place is not None and place.segment == number
            assert place.table[0] <= entry <= place.last
            assert [first for first in place.table[::2] if first <= entry]
    for ledger_id, state in world.states.items():
        assert locator.locate(ledger_id, state.last_entry + 1, state.created_segment, state.last_segment) is None


@settings(max_examples=examples(60), deadline=None)
@given(PRESENCE, st.sets(st.integers(1, 24)), st.randoms(use_true_random=False))
def test_with_segments_lost_the_rest_is_found(presence: list[dict[int, int]], lost: set[int], random: Random) -> None:
    world = Segments()
    for number, entries in enumerate(presence, 1):
        world.add(number, entries)
    for number in lost & world.segments.keys():
        world.lose(number)
    places = list(world.where.items())
    random.shuffle(places)
    locator = world.locator()
    for (ledger_id, entry), number in places:
        state = world.states[ledger_id]
        place = locator.locate(ledger_id, entry, state.created_segment, state.last_segment)
        if number in world.segments:
            assert place is not None and place.segment == number
        elif place is not None:
            assert place.table[0] > entry, "the next one that there is"


@settings(max_examples=examples(60), deadline=None)
@given(PRESENCE, st.sets(st.integers(1, 24)))
def test_a_deleted_ledger_is_counted_off_wherever_it_is(presence: list[dict[int, int]], lost: set[int]) -> None:
    world = Segments()
    for number, entries in enumerate(presence, 1):
        world.add(number, entries)
    for number in lost & world.segments.keys():
        world.lose(number)
    dead = {key: (state.last_segment, state.created_segment) for key, state in world.states.items()}
    sizes = bytes_by_segment(world.segments, world.files, dead, lambda: None)
    expected: dict[int, int] = {}
    for number in world.where.values():
        if number in world.segments:
            expected[number] = expected.get(number, 0) + RECORD_BYTES
    assert +sizes == expected


def test_many_deleted_ledgers_are_looked_up_at_once() -> None:
    world = Segments()
    for number in range(1, 5):
        world.add(number, dict.fromkeys(range(number, 300, number), 1))
    dead = {key: (state.last_segment, state.created_segment) for key, state in world.states.items()}
    sizes = bytes_by_segment(world.segments, world.files, dead, lambda: None)
    assert sizes == {number: RECORD_BYTES * len(range(number, 300, number)) for number in range(1, 5)}


@pytest.mark.parametrize("every", [1, 3, 400])
def test_few_footers_are_looked_at(every: int) -> None:
    world = Segments()
    for number in range(1, 1001):
        world.add(number, {1: 2} if number % every == 1 % every else {2: 1})
    state = world.states[1]
    looks = 0

    def count(kind: str, path: Path) -> None:
        nonlocal looks
        looks += kind == "read"

    world.disk.before_unlocked = count
    for entry in range(0, state.last_entry + 1, 1 + state.last_entry // 50):
        looks = 0
        assert world.locator().locate(1, entry, 1, state.last_segment) is not None
        assert looks <= 4 * 2 * 12, f"{looks} reads"
    locator = world.locator()
    locator.locate(1, 0, 1, state.last_segment)
    if every == 1:
        looks = 0
        for entry in range(state.last_entry + 1):
            locator.locate(1, entry, 1, state.last_segment)
        assert looks <= 10 * 1000, "one footer after the other for whoever reads on"


def test_a_damaged_footer_is_found_by_a_check_and_never_misread() -> None:
    clean = Segments()
    for number in range(1, 4):
        clean.add(number, {1: 2, 2: 2})
    segment = clean.segments[2]
    content = clean.disk.file(segment.path)
    assert segment.data_stop == segment.footer_offset > PAGE_BYTES
    for offset in range(segment.footer_offset, segment.footer_offset + segment.footer_bytes):
        content[offset] ^= 1 << offset % 8
        locator = clean.locator()
        for ledger_id, entry in clean.where:
            try:
                place = locator.locate(ledger_id, entry, 1, 3)
                assert place is None or (
                    place.table and max(location >> 32 for location in place.table[1::2]) < segment.footer_offset
                )
            except BadFooter:
                pass  # a length or a place that cannot be
        assert locator.check(1, 3) or clean.damaged
        assert clean.damaged
        clean.damaged.clear()
        content[offset] ^= 1 << offset % 8
    assert not clean.locator().check(1, 3) and not clean.damaged
