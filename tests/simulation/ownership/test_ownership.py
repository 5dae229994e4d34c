"""20,000 steps of a fleet in every run of the tests, and the simulation itself: it is repeatable, and it notices what it is there
to notice. `make ownership` runs any number.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from messaging.broker.core.ownership.lease import Lease
from messaging.broker.core.ownership.lookup import Answer, NotNow
from tests.simulation.ownership import broker, database
from tests.simulation.ownership.outage import sessions_lost
from tests.simulation.ownership.run import FAULTS, WEIGHTS, simulate

SEEDS = (1, 2)
OUTAGES = 5


def test_a_fleet_keeps_its_promises() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        result = simulate(seed, 10_000)
        assert not result.violation, result.described
        counts += result.counts
    happened = {
        *WEIGHTS,
        *FAULTS,
        "appended",
        "acknowledged",
        "acknowledged where it was",
        "left without answer",
        "look-ups that wait",
        "look-ups answered after they waited",
        "look-ups refused in the end",
        "opened while announced",
        "openings refused",
        "handed over",
        "split",
        "released",
        "refused",
        "pages",
        "recovered",
        "done unheard",
        "Fenced",
    }
    assert happened <= set(counts), happened - set(counts)


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(5, 2_000) == simulate(5, 2_000)
    assert simulate(6, 2_000).trace != simulate(5, 2_000).trace


def _found(words: str) -> bool:
    for seed in range(40, 120):
        result = simulate(seed, 20_000)
        if result.violation:
            assert words in result.violation and f"--seed {seed} --steps {result.steps}" in result.described, result.described
            return True
    return False


def test_writes_that_carry_no_fence_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was replaced stores the cursor as it knew it."""
    monkeypatch.setattr(database, "checked", lambda shared, fence: None)
    assert _found("acknowledge")


def test_acknowledgements_that_are_taken_while_a_bundle_moves_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cursors are saved, and the bundle is not handed over yet: what is acknowledged then was answered and forgotten."""
    monkeypatch.setattr(broker.AttachedConsumer, "closed", property(lambda self: None, lambda self, why: None), raising=False)
    assert _found("acknowledged up to")


def test_topics_that_are_opened_while_a_bundle_closes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its move is announced, clients are let in until then, and what is being opened is waited for."""
    monkeypatch.setattr(broker.BrokerLife, "opening", lambda self, bundle: [])
    assert _found("which has closed all topics of")


def test_clients_that_are_let_in_for_longer_than_a_move_is_announced_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    announced = broker.BrokerLife.__init__

    class Lasting(set[object]):
        def discard(self, bundle: object) -> None:
            pass

    def lasting(life: broker.BrokerLife, *arguments: Any) -> None:
        announced(life, *arguments)
        life.leaving = cast(Any, Lasting())

    monkeypatch.setattr(broker.BrokerLife, "__init__", lasting)
    assert _found("which has closed all topics of")


def test_two_writers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither fences nor the seal of the ledger keep them apart."""
    monkeypatch.setattr(database, "checked", lambda shared, fence: None)

    def opened(shared: database.SharedDatabase, fence: object, topic: str, broker_id: str) -> database.Opened:
        return database.Opened(0, len(shared.logs[topic]), database.mark_delete_of(shared, topic, broker_id))

    monkeypatch.setattr(broker, "open_topic", opened)
    assert _found("two writers")


def test_a_fleet_that_gets_stuck_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*arguments: object, sent: bool) -> Answer:
        return NotNow("never")

    monkeypatch.setattr(broker, "answer", nothing)
    assert "are not answered" in simulate(1, 500).violation


def test_an_outage_of_the_database_ends_no_broker_that_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [seed for seed in range(OUTAGES) if sessions_lost(seed)] == []
    monkeypatch.setattr(Lease, "may_end_others", Lease.may_serve)
    assert [seed for seed in range(OUTAGES) if sessions_lost(seed)], "whoever is back first takes the others for gone"
