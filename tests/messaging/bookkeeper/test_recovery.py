"""A recovery's machine: who is fenced, what is the last entry, and what it refuses to conclude."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

import pytest

from messaging.bookkeeper.core.actions import Failed, Finished, SendAdd, SendRead, WriteMetadata
from messaging.bookkeeper.core.entries import NO_ENTRY, Digest, DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState, Segment
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.core.recovery import Recovery
from messaging.bookkeeper.errors import BookkeeperError, MalformedMetadata, Unavailable, WrongPassword

DIGEST = Digest(DigestType.CRC32C, b"")
OPEN = LedgerMetadata(7, 3, 3, 2, (Segment(0, ("a", "b", "c")),), version=0)
MARKED = replace(OPEN, state=LedgerState.IN_RECOVERY, version=1)


def stored(entry_id: int, last_confirmed: int) -> bytes:
    """Each payload has one byte."""
    return b"".join(DIGEST.pack(7, entry_id, last_confirmed, entry_id + 1, b"x"))


class Driver:
    """`bookies` answers reads: (bookie, entry id) -> status or body, and what is not in it stays without an answer."""

    def __init__(self, metadata: LedgerMetadata = MARKED, spares: tuple[str, ...] = ()) -> None:
        self.stored = metadata
        self.answers: dict[tuple[str, int], Status | bytes] = {}
        self.adds: dict[str, Status] = {}
        self.sent: list[SendAdd] = []
        self.reads: list[SendRead] = []
        self.end: Finished | Failed | None = None
        self.spares = spares
        self.machine = Recovery(metadata, DIGEST, self._choose, read_ahead=2)

    def _choose(self, ensemble: tuple[str, ...], slots: Set[int], avoid: Set[str]) -> dict[int, str]:
        left = [spare for spare in self.spares if spare not in ensemble and spare not in avoid]
        return dict(zip(sorted(slots), left, strict=False))

    def run(self) -> LedgerMetadata:
        self.take(self.machine.start())
        assert isinstance(self.end, Finished), self.end
        return self.end.metadata

    def fail(self) -> BookkeeperError:
        self.take(self.machine.start())
        assert isinstance(self.end, Failed), self.end
        return self.end.error

    def take(self, actions: Iterable[object]) -> None:
        generation = self.machine.generation
        for action in actions:
            if isinstance(action, SendRead):
                self.reads.append(action)
                answer = self.answers.get((action.bookie, action.entry_id))
                if answer is not None:
                    status, body = (Status.OK, answer) if isinstance(answer, bytes) else (answer, b"")
                    self.take(self.machine.answered(generation, action.slot, action.bookie, action.entry_id, status, body))
            elif isinstance(action, SendAdd):
                self.sent.append(action)
                status = self.adds.get(action.bookie, Status.OK)
                self.take(self.machine.added(generation, action.slot, action.bookie, action.entry_id, status))
            elif isinstance(action, WriteMetadata):
                self.stored = replace(action.metadata, version=(action.metadata.version or 0) + 1)
                self.take(self.machine.metadata_written(self.stored))
            else:
                assert isinstance(action, Finished | Failed)
                self.end = action

    def all_say(self, entry_id: int, *answers: Status | bytes) -> Driver:
        for bookie, answer in zip("abc", answers, strict=True):
            self.answers[bookie, entry_id] = answer
        return self


def test_the_last_entry_is_found_and_written_again() -> None:
    driver = Driver(OPEN).all_say(NO_ENTRY, stored(1, 0), Status.NO_ENTRY, stored(2, 0))
    driver.all_say(1, stored(1, 0), stored(1, 0), Status.NO_ENTRY).all_say(2, Status.NO_ENTRY, Status.NO_ENTRY, stored(2, 0))
    driver.all_say(3, *[Status.NO_ENTRY] * 3)
    closed = driver.run()
    assert (closed.state, closed.last_entry_id, closed.length) == (LedgerState.CLOSED, 2, 3)
    assert {(send.entry_id, DIGEST.unpack(7, send.entry_id, b"".join(send.body)).last_confirmed) for send in driver.sent} == {
        (1, 0),
        (2, 1),
    }


def test_a_closed_ledger_is_as_it_is() -> None:
    closed = OPEN.closed_at(4, 5)
    assert Driver(closed).run() is closed


def test_a_ledger_without_entries_is_closed_without_any() -> None:
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_LEDGER] * 3).all_say(0, *[Status.NO_LEDGER] * 3)
    closed = driver.run()
    assert (closed.last_entry_id, closed.length) == (-1, 0)


def test_p3_each_read_is_one_that_fences() -> None:
    """The machine asks for nothing else; the shell sends every read of a recovery with the flag and the key."""
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_LEDGER] * 3).all_say(0, *[Status.NO_LEDGER] * 3)
    driver.run()
    assert {read.entry_id for read in driver.reads} >= {NO_ENTRY, 0}


@pytest.mark.parametrize(
    "unknown", [Status.TIMED_OUT, Status.CONNECTION_LOST, Status.UNKNOWN_LEDGER_STATE, Status.IO_ERROR, b"damaged" * 9]
)
def test_p2_what_is_not_known_is_no_answer(unknown: Status | bytes) -> None:
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_ENTRY] * 3).all_say(0, unknown, unknown, Status.NO_ENTRY)
    error = driver.fail()
    assert isinstance(error, Unavailable) and "nobody knows whether entry 0 was acknowledged" in error.message


@pytest.mark.parametrize("unknown", [Status.TIMED_OUT, Status.UNKNOWN_LEDGER_STATE, b"damaged" * 9])
def test_p2_a_bookie_that_does_not_know_is_not_fenced(unknown: Status | bytes) -> None:
    error = Driver().all_say(NO_ENTRY, unknown, unknown, Status.NO_ENTRY).fail()
    assert isinstance(error, Unavailable) and error.retryable and "too few bookies" in error.message


def test_two_bookies_of_three_are_enough() -> None:
    driver = Driver().all_say(NO_ENTRY, Status.TIMED_OUT, stored(0, -1), Status.NO_ENTRY)
    driver.all_say(0, Status.TIMED_OUT, stored(0, -1), Status.NO_ENTRY).all_say(
        1, Status.TIMED_OUT, Status.NO_ENTRY, Status.NO_ENTRY
    )
    driver.adds["a"] = Status.TIMED_OUT
    assert driver.run().last_entry_id == 0


def test_one_no_is_not_the_end_where_an_ack_quorum_may_have_it() -> None:
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_ENTRY] * 3).all_say(0, Status.NO_ENTRY, Status.TIMED_OUT, stored(0, -1))
    driver.all_say(1, *[Status.NO_ENTRY] * 3)
    assert driver.run().last_entry_id == 0


def test_p5_it_begins_no_earlier_than_the_last_segment() -> None:
    metadata = replace(MARKED, segments=(Segment(0, ("x", "y", "z")), Segment(5, ("a", "b", "c"))))
    driver = Driver(metadata).all_say(NO_ENTRY, *[Status.NO_LEDGER] * 3).all_say(5, *[Status.NO_LEDGER] * 3)
    driver.answers["z", 4] = stored(4, 3)  # slot (4 + 1) % 3 of the segment before
    closed = driver.run()
    assert (closed.last_entry_id, closed.length) == (4, 5)
    assert closed.segments == (Segment(0, ("x", "y", "z")),), "a segment that no entry reached goes"
    assert {read.entry_id for read in driver.reads} == {NO_ENTRY, 4, 5, 6}


def test_p6_the_length_of_what_was_confirmed_is_read_where_it_is() -> None:
    driver = Driver().all_say(NO_ENTRY, stored(2, 1), Status.TIMED_OUT, Status.NO_ENTRY)
    driver.all_say(2, *[Status.NO_ENTRY] * 3).all_say(1, Status.TIMED_OUT, stored(1, 0), Status.TIMED_OUT)
    assert driver.run().length == 2


def test_p6_a_last_entry_that_cannot_be_read_leaves_the_ledger_open() -> None:
    driver = Driver().all_say(NO_ENTRY, stored(2, 1), Status.NO_ENTRY, Status.NO_ENTRY)
    driver.all_say(2, *[Status.NO_ENTRY] * 3).all_say(1, *[Status.TIMED_OUT] * 3)
    assert "its last entry 1" in driver.fail().message


def test_p18_a_wrong_password_ends_it_at_once() -> None:
    error = Driver().all_say(NO_ENTRY, Status.UNAUTHORIZED, Status.NO_ENTRY, Status.NO_ENTRY).fail()
    assert isinstance(error, WrongPassword) and not error.retryable


def test_a_bookie_that_fails_is_replaced_in_the_same_change_that_closes() -> None:
    driver = Driver(spares=("d",)).all_say(NO_ENTRY, stored(1, 0), stored(1, 0), Status.NO_ENTRY)
    driver.all_say(1, Status.NO_ENTRY, stored(1, 0), Status.NO_ENTRY).all_say(2, *[Status.NO_ENTRY] * 3)
    driver.adds["b"] = Status.READ_ONLY
    assert driver.run().segments == (Segment(0, ("a", "b", "c")), Segment(1, ("a", "d", "c")))


def test_too_few_bookies_to_write_to_leave_the_ledger_open() -> None:
    driver = Driver().all_say(NO_ENTRY, *[stored(0, -1)] * 3).all_say(0, *[stored(0, -1)] * 3)
    driver.adds = {"a": Status.READ_ONLY, "b": Status.READ_ONLY}
    assert "cannot be written again" in driver.fail().message


def test_a_ledger_that_another_recovery_closed_is_closed() -> None:
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_ENTRY] * 3)
    driver.take(driver.machine.start())
    closing = [driver.machine.answered(driver.machine.generation, slot, "abc"[slot], 0, Status.NO_ENTRY, b"") for slot in range(2)]
    assert isinstance(closing[-1][0], WriteMetadata)
    theirs = replace(MARKED.closed_at(3, 4), version=9)
    assert driver.machine.metadata_present(theirs) == [Finished(theirs)]


def test_metadata_that_changed_meanwhile_begins_it_again() -> None:
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_ENTRY] * 3)
    driver.take(driver.machine.start())
    first = driver.machine.generation
    for slot in range(2):
        driver.machine.answered(first, slot, "abc"[slot], 0, Status.NO_ENTRY, b"")
    moved = replace(MARKED, segments=(Segment(0, ("a", "b", "e")),), version=9)
    reads = driver.machine.metadata_present(moved)
    assert [(read.bookie, read.entry_id) for read in reads if isinstance(read, SendRead)] == [("a", -1), ("b", -1), ("e", -1)]
    assert driver.machine.answered(first, 2, "c", 0, Status.NO_ENTRY, b"") == []


def test_a_ledger_that_is_open_again_is_not_closed_by_guess() -> None:
    driver = Driver().all_say(NO_ENTRY, *[Status.NO_ENTRY] * 3)
    driver.take(driver.machine.start())
    for slot in range(2):
        driver.machine.answered(driver.machine.generation, slot, "abc"[slot], 0, Status.NO_ENTRY, b"")
    (failed,) = driver.machine.metadata_present(replace(OPEN, version=9))
    assert isinstance(failed, Failed) and isinstance(failed.error, MalformedMetadata)
