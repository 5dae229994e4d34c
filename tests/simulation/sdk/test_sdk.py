"""Lives of a client from seeds. `make sdk-simulation` has more of them."""

from __future__ import annotations

import pytest

from messaging.client.consuming.receipts import Receipts
from messaging.client.producing.pending import PendingQueue
from messaging.client.wire.connection import Connection
from tests.simulation.sdk.model_broker import Broken
from tests.simulation.sdk.run import live


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_out_of_order_whatever_breaks(seed: int) -> None:
    life = live(seed)
    assert life.stored and life.connections > 1


def test_a_life_is_the_same_each_time() -> None:
    assert live(3) == live(3)


def test_what_is_not_sent_again_after_a_break_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation sees what it is made to see."""
    monkeypatch.setattr(PendingQueue, "connection_lost", lambda queue: None)
    with pytest.raises((Broken, TimeoutError)):
        for seed in range(12):
            live(seed)


def test_a_receipt_that_says_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(receipts: Receipts, connection: Connection) -> None:
        receipts.end(None)  # type: ignore[arg-type]

    monkeypatch.setattr(Receipts, "opened", lost)
    with pytest.raises(Broken, match="had its receipt"):
        for seed in range(12):
            live(seed)
