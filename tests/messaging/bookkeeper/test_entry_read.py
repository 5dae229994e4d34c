"""Reading one entry, and choosing bookies."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from messaging.bookkeeper.core.actions import Arrived, Failed, SendRead
from messaging.bookkeeper.core.entries import Digest, DigestType
from messaging.bookkeeper.core.entry_read import EntryRead
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, Segment
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.core.placement import Candidate, Placement
from messaging.bookkeeper.errors import BookkeeperError, CorruptEntry, NotEnoughBookies, Unavailable, WrongPassword

DIGEST = Digest(DigestType.CRC32C, b"")
METADATA = LedgerMetadata(7, 3, 3, 2, (Segment(0, ("a", "b", "c")),))
BODY = b"".join(DIGEST.pack(7, 1, 0, 5, b"hello"))


def test_bookies_are_asked_one_after_the_other() -> None:
    read = EntryRead(METADATA, DIGEST, 1)
    assert read.start() == [SendRead(1, "b", 1)]
    assert read.answered(1, "b", Status.NO_ENTRY, b"") == [SendRead(2, "c", 1)]
    (arrived,) = read.answered(2, "c", Status.OK, BODY)
    assert isinstance(arrived, Arrived) and (arrived.entry.payload, arrived.bookie) == (b"hello", "c")
    assert read.slow() == []


def test_one_bookie_is_asked_for_all_of_a_ledger_that_each_has() -> None:
    """It reads ahead by itself; where entries are divided among bookies there is no such one."""
    everywhere = [EntryRead(METADATA, DIGEST, entry_id).start() for entry_id in range(6)]
    assert everywhere == [[SendRead(1, "b", entry_id)] for entry_id in range(6)]
    other = replace(METADATA, ledger_id=8)
    assert EntryRead(other, DIGEST, 0).start() == [SendRead(2, "c", 0)]
    divided = replace(METADATA, write_quorum=2)
    assert [action for entry_id in range(3) for action in EntryRead(divided, DIGEST, entry_id).start()] == [
        SendRead(0, "a", 0),
        SendRead(1, "b", 1),
        SendRead(2, "c", 2),
    ]


def test_one_bookie_that_refuses_does_not_keep_what_the_others_have() -> None:
    read = EntryRead(METADATA, DIGEST, 1)
    read.start()
    assert read.answered(1, "b", Status.UNAUTHORIZED, b"") == [SendRead(2, "c", 1)]
    assert isinstance(read.answered(2, "c", Status.OK, BODY)[0], Arrived)


def test_a_slow_bookie_is_not_waited_for() -> None:
    read = EntryRead(METADATA, DIGEST, 1)
    read.start()
    assert read.slow() == [SendRead(2, "c", 1)]
    assert isinstance(read.answered(2, "c", Status.OK, BODY)[0], Arrived)
    assert read.answered(1, "b", Status.OK, BODY) == []


def test_bookies_to_avoid_are_asked_last() -> None:
    read = EntryRead(METADATA, DIGEST, 1, frozenset({"b"}))
    assert [read.start()[0].bookie, read.slow()[0].bookie, read.slow()[0].bookie] == ["c", "a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([Status.NO_ENTRY] * 3, CorruptEntry),
        ([b"damaged" * 9, Status.NO_ENTRY, Status.NO_LEDGER], CorruptEntry),
        ([b"damaged" * 9, Status.TIMED_OUT, Status.NO_LEDGER], Unavailable),
        ([Status.UNAUTHORIZED] * 3, WrongPassword),
        ([Status.NO_ENTRY, Status.UNAUTHORIZED, Status.TIMED_OUT], WrongPassword),
    ],
)
def test_an_entry_that_cannot_be_had_is_said_with_what_each_bookie_answered(
    answers: list[Status | bytes], kind: type[BookkeeperError]
) -> None:
    read = EntryRead(METADATA, DIGEST, 1)
    actions = read.start()
    for answer in answers:
        (send,) = actions
        assert isinstance(send, SendRead)
        status, body = (Status.OK, answer) if isinstance(answer, bytes) else (answer, b"")
        actions = read.answered(send.slot, send.bookie, status, body)
    (failed,) = actions
    assert isinstance(failed, Failed) and type(failed.error) is kind


def placement(*points: float, require_racks: int = 1) -> Placement:
    chances = cycle(points or (0.0,))
    return Placement(lambda: next(chances), require_racks)


def test_write_sets_are_spread_over_racks() -> None:
    candidates = [Candidate(f"{rack}{number}", rack) for rack in "xyz" for number in range(3)]
    for point in (0.0, 0.3, 0.6, 0.99):
        ensemble = placement(point).ensemble(candidates, 3, 3)
        assert {bookie[0] for bookie in ensemble} == {"x", "y", "z"}
    striped = placement(0.5).ensemble(candidates, 6, 2)
    assert all(striped[slot][0] != striped[(slot + 1) % 6][0] for slot in range(6))


def test_racks_that_are_required_are_not_done_without() -> None:
    candidates = [Candidate(f"x{number}", "x") for number in range(3)]
    assert len(placement().ensemble(candidates, 3, 3)) == 3
    with pytest.raises(NotEnoughBookies, match="has to be in 2 racks"):
        placement(require_racks=2).ensemble(candidates, 3, 3)
    mixed = [Candidate("x0", "x"), Candidate("y0", "y"), Candidate("x1", "x")]
    assert placement(require_racks=2).replacements(mixed, ("x0", "y0"), {1}, {"y0"}, 2) == {}


def test_free_space_decides_how_often_a_bookie_is_chosen() -> None:
    candidates = [Candidate("full", free_bytes=0), Candidate("half", free_bytes=50), Candidate("new", free_bytes=100)]
    chosen = [placement(point / 100).ensemble(candidates, 1, 1)[0] for point in range(100)]
    assert chosen.count("full") == 0 and 30 <= chosen.count("half") <= 36


def test_a_bookie_that_failed_is_taken_only_where_there_is_no_other() -> None:
    candidates = [Candidate("a", failed=True), Candidate("b"), Candidate("c")]
    assert set(placement(0.9).ensemble(candidates, 2, 2)) == {"b", "c"}
    assert set(placement(0.9).ensemble(candidates, 3, 2)) == {"a", "b", "c"}


def test_too_few_bookies_are_named() -> None:
    with pytest.raises(NotEnoughBookies, match=r"needs 3 bookies that take writes; there are 2 \(a, b\)"):
        placement().ensemble([Candidate("a"), Candidate("b")], 3, 2)


def test_a_replacement_is_none_of_those_that_are_there() -> None:
    candidates = [Candidate(name) for name in "abcd"]
    assert placement().replacements(candidates, ("a", "b", "c"), {1}, {"b"}, 2) == {1: "d"}
    assert placement().replacements(candidates, ("a", "b", "c"), {1}, {"b", "d"}, 2) == {}
