"""Whose name is taken, and who may take it over."""

from __future__ import annotations

import pytest

from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.producers.producer_table import ProducerTable
from messaging.errors import ProducerBusy
from tests.support.clients.producer_sink import ProducerEnd


def test_a_name_is_taken_once() -> None:
    table, sink = ProducerTable(), ProducerEnd()
    assert table.attach(Producer(1, "a", sink)).former is None
    assert table.attach(Producer(2, "b", sink)).former is None
    with pytest.raises(ProducerBusy):
        table.attach(Producer(1, "a", ProducerEnd()))
    assert len(table) == 2


@pytest.mark.parametrize(
    ("producer_id", "epoch", "same_connection", "taken_over"),
    [(1, 1, True, True), (1, 0, True, False), (2, 1, True, False), (1, 1, False, False)],
)
def test_only_itself_on_a_later_try_takes_over(producer_id: int, epoch: int, same_connection: bool, taken_over: bool) -> None:
    table, sink = ProducerTable(), ProducerEnd()
    former = Producer(1, "a", sink)
    table.attach(former)
    newcomer = Producer(producer_id, "a", sink if same_connection else ProducerEnd(), epoch=epoch)
    if taken_over:
        assert table.attach(newcomer).former is former
        assert list(table) == [newcomer]
    else:
        with pytest.raises(ProducerBusy):
            table.attach(newcomer)
        assert list(table) == [former]


def test_the_name_of_a_dead_connection_is_free() -> None:
    table, sink = ProducerTable(), ProducerEnd()
    former = Producer(1, "a", sink)
    table.attach(former)
    sink.connected = False
    newcomer = Producer(7, "a", ProducerEnd())
    assert table.attach(newcomer).former is former
    table.detach(former)  # the dead connection's clean-up comes late and leaves the successor alone
    assert list(table) == [newcomer]
    table.detach(newcomer)
    table.detach(newcomer)
    assert len(table) == 0
