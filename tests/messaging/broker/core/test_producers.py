"""Whose name is taken, and who may take it over."""

from __future__ import annotations

import pytest

from messaging.broker.core.producers import Producer, ProducerTable
from messaging.errors import ProducerBusy
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position


class Sink:
    def __init__(self) -> None:
        self.connected = True

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None: ...
    def append_completed(self, size: int) -> None: ...
    def closed(self, producer: Producer) -> None: ...
    def alive(self) -> bool:
        return self.connected


def test_a_name_is_taken_once() -> None:
    table, sink = ProducerTable(), Sink()
    assert table.attach(Producer(1, "a", sink)) is None
    assert table.attach(Producer(2, "b", sink)) is None
    with pytest.raises(ProducerBusy):
        table.attach(Producer(1, "a", Sink()))
    assert len(table) == 2


@pytest.mark.parametrize(
    ("producer_id", "epoch", "same_connection", "taken_over"),
    [(1, 1, True, True), (1, 0, True, False), (2, 1, True, False), (1, 1, False, False)],
)
def test_only_itself_on_a_later_try_takes_over(producer_id: int, epoch: int, same_connection: bool, taken_over: bool) -> None:
    table, sink = ProducerTable(), Sink()
    held = Producer(1, "a", sink)
    table.attach(held)
    newcomer = Producer(producer_id, "a", sink if same_connection else Sink(), epoch=epoch)
    if taken_over:
        assert table.attach(newcomer) is held
        assert list(table) == [newcomer]
    else:
        with pytest.raises(ProducerBusy):
            table.attach(newcomer)
        assert list(table) == [held]


def test_the_name_of_a_dead_connection_is_free() -> None:
    table, sink = ProducerTable(), Sink()
    held = Producer(1, "a", sink)
    table.attach(held)
    sink.connected = False
    newcomer = Producer(7, "a", Sink())
    assert table.attach(newcomer) is held
    table.detach(held)  # the dead connection's clean-up comes late and leaves the successor alone
    assert list(table) == [newcomer]
    table.detach(newcomer)
    table.detach(newcomer)
    assert len(table) == 0
