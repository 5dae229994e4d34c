"""Some lives of ledgers in every run of the tests, and the simulation itself: it is repeatable, and it notices what it is there
to notice. `make bookkeeper` runs any number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from messaging.bookkeeper.core.actions import RecoveryAction, WriteMetadata, WriterAction
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.core.recovery import Recovery
from messaging.bookkeeper.core.writer import Writer
from tests.simulation.bookkeeper.cluster import Bookie
from tests.simulation.bookkeeper.run import WEIGHTS, simulate

SEEDS = range(1, 31)


def test_ledgers_keep_their_promises() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        result = simulate(seed)
        assert not result.violation, result.described
        counts += result.counts
    happened = {*WEIGHTS, "confirmed", "recovered", "conflict", "unknown outcome", "read back", "Fenced", "NotEnoughBookies"}
    assert happened - {"empty", "close"} <= set(counts), happened - set(counts)
    assert counts["segments"] > len(SEEDS)


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(3).lines == simulate(3).lines


def _goes_on_before_the_ensemble_is_written(patch: pytest.MonkeyPatch) -> None:
    added = Writer.added

    def hasty(self: Writer, slot: int, bookie: str, entry_id: int, status: Status, attempt: int) -> list[WriterAction]:
        actions = added(self, slot, bookie, entry_id, status, attempt)
        for action in list(actions):
            if isinstance(action, WriteMetadata):
                actions += self.metadata_written(replace(action.metadata, version=(action.metadata.version or 0) + 1))
        return actions

    patch.setattr(Writer, "added", hasty)


def _counts_acks_of_bookies_that_were_replaced(patch: pytest.MonkeyPatch) -> None:
    added = Writer.added

    def careless(self: Writer, slot: int, _bookie: str, entry_id: int, status: Status, attempt: int) -> list[WriterAction]:
        return added(self, slot, self.metadata.last_segment.ensemble[slot], entry_id, status, attempt)

    patch.setattr(Writer, "added", careless)


def _takes_a_refusal_for_an_ack(patch: pytest.MonkeyPatch) -> None:
    added = Writer.added

    def deaf(self: Writer, slot: int, bookie: str, entry_id: int, status: Status, attempt: int) -> list[WriterAction]:
        return added(self, slot, bookie, entry_id, Status.OK if status is Status.FENCED else status, attempt)

    patch.setattr(Writer, "added", deaf)


def _takes_for_no_entry(*statuses: Status) -> Callable[[pytest.MonkeyPatch], None]:
    def fault(patch: pytest.MonkeyPatch) -> None:
        answered = Recovery.answered

        def credulous(
            self: Recovery, generation: int, slot: int, bookie: str, entry_id: int, status: Status, body: bytes
        ) -> list[RecoveryAction]:
            return answered(self, generation, slot, bookie, entry_id, Status.NO_ENTRY if status in statuses else status, body)

        patch.setattr(Recovery, "answered", credulous)

    fault.__name__ = f"takes {statuses[0].name} for no entry"
    return fault


def _ends_at_the_first_no(patch: pytest.MonkeyPatch) -> None:
    answered = Recovery.answered

    def hasty(
        self: Recovery, generation: int, slot: int, bookie: str, entry_id: int, status: Status, body: bytes
    ) -> list[RecoveryAction]:
        actions = answered(self, generation, slot, bookie, entry_id, status, body)
        if status is Status.NO_ENTRY and entry_id >= 0:
            for other in self.metadata.write_set(entry_id):
                actions += answered(self, generation, other, bookie, entry_id, status, body)
        return actions

    patch.setattr(Recovery, "answered", hasty)


def _never_fences(patch: pytest.MonkeyPatch) -> None:
    read = Bookie.read
    patch.setattr(Bookie, "read", lambda self, entry_id, _fence_key: read(self, entry_id, None))


# With a seed that meets it. If the simulation changes, another seed may be needed: try more of them.
FAULTS = [
    (_goes_on_before_the_ensemble_is_written, 1),
    (_counts_acks_of_bookies_that_were_replaced, 198),
    (_takes_a_refusal_for_an_ack, 3),
    (_takes_for_no_entry(Status.TIMED_OUT, Status.CONNECTION_LOST), 25),
    (_takes_for_no_entry(Status.UNKNOWN_LEDGER_STATE), 349),
    (_ends_at_the_first_no, 34),
    (_never_fences, 5),
]


@pytest.mark.parametrize(("fault", "seed"), FAULTS, ids=lambda value: getattr(value, "__name__", "").strip("_"))
def test_a_fault_is_noticed(fault: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not simulate(seed).violation
    fault(monkeypatch)
    assert simulate(seed).violation
