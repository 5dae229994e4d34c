"""One outage of the database under a fleet whose brokers are all well: nobody is taken for gone when it is over."""

from __future__ import annotations

from random import Random

from messaging.broker.core.ownership.lease import RENEW_S
from tests.simulation.ownership.run import BROKERS, Fleet

STEP_MS = 100
BEFORE_S, AFTER_S = 20, 30
OUTAGE_S = (5, 40)
CLIENT_STEPS = 4  # in each step of time


def sessions_lost(seed: int) -> int:
    """How many brokers were ended. A broker notices only after up to `RENEW_S` that the database answers again."""
    fleet = Fleet(Random(seed))
    random = fleet.random
    _live(fleet, BEFORE_S, {})
    for broker_id in BROKERS:
        fleet.cut.add(broker_id)
        fleet.disconnect(broker_id)
    _live(fleet, random.uniform(*OUTAGE_S), {})
    _live(fleet, AFTER_S, {broker_id: fleet.shared.now_ms + random.uniform(0, RENEW_S * 1000) for broker_id in BROKERS})
    if any(life.lease is None and not life.lost for life in fleet.lives.values()):
        raise AssertionError("a broker has no session")
    return sum(life.lost for life in fleet.lives.values())


def _live(fleet: Fleet, seconds: float, back_ms: dict[str, float]) -> None:
    """`back_ms`: from when each reaches the database again."""
    for _ in range(round(seconds * 1000 / STEP_MS)):
        fleet.shared.now_ms += STEP_MS
        for broker_id in fleet.random.sample(BROKERS, len(BROKERS)):
            if fleet.shared.now_ms >= back_ms.get(broker_id, float("inf")):
                fleet.cut.discard(broker_id)
            if not fleet.lives[broker_id].lost:
                fleet.tick(broker_id)
            for _ in range(CLIENT_STEPS):
                fleet.step += 1
                fleet.client()
                fleet.carry_out(broker_id)
