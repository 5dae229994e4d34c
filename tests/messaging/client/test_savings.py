"""What the advised settings would save, beside what is measured on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.client.errors import InvalidValue
from messaging.client.message import OutgoingMessage
from messaging.client.producing.serializing import batch_payload
from messaging.client.savings import DAY_S, TopicTraffic, entry_bytes, savings
from messaging.client.tuning import advise
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb


def saved_by(measured: TopicTraffic, latency_ms: float = 10.0, *, keyed: bool = False) -> object:
    traffic = measured.traffic(latency_ms, keyed=keyed)
    return savings(measured, traffic, advise(traffic))


def test_bytes_are_those_of_frames() -> None:
    """A hundred messages alone, and in one batch."""
    messages = [OutgoingMessage(b"x" * 200) for _ in range(100)]
    metadata = pb.Metadata(producer_name="broker-1-100000", sequence_id=1_000_000, publish_time=1_700_000_000_000)
    metadata.num_messages_in_batch = 100
    batch = len(frames.build_send(1, 1_000_000, metadata, batch_payload(messages, list(range(1_000_000, 1_000_100))), 100))
    receipt = entry_bytes() - len(frames.build_send(1, 1_000_000, _alone(), b""))
    alone = 100 * (len(frames.build_send(1, 1_000_000, _alone(), b"x" * 200)) + receipt)
    measured = TopicTraffic(10_000, 200, 1.0)
    saved = savings(measured, measured.traffic(10.0, keyed=False), advise(measured.traffic(10.0, keyed=False)))
    assert saved.messages_per_entry == pytest.approx(100)
    assert saved.traffic_bytes / (10_000 * DAY_S) * 100 == pytest.approx(alone - batch - receipt, rel=0.02)
    assert saved.entries == pytest.approx(10_000 * DAY_S * 0.99)


def _alone() -> pb.Metadata:
    return pb.Metadata(producer_name="broker-1-100000", sequence_id=1_000_000, publish_time=1_700_000_000_000)


def test_the_traffic_is_that_of_one_of_the_producers() -> None:
    many = TopicTraffic(10_000, 200, 1.0, producers=100)
    saved = savings(many, many.traffic(10.0, keyed=False), advise(many.traffic(10.0, keyed=False)))
    assert saved.messages_per_entry == 1.0 and saved.entries == saved.traffic_bytes == 0.0


def test_money_is_known_where_a_price_is() -> None:
    measured = TopicTraffic(10_000, 200, 1.0)
    saved = savings(measured, measured.traffic(10.0, keyed=False), advise(measured.traffic(10.0, keyed=False)))
    assert saved.money(None, None) is None
    assert saved.money(0.1, None) == pytest.approx(saved.traffic_bytes / (1 << 30) * 0.1)
    assert saved.money(0.1, 0.05) > saved.money(0.1, None)  # type: ignore[operator]


@given(
    st.builds(
        TopicTraffic, st.floats(0.01, 1e6), st.floats(1, 5e6), st.floats(1, 5000), st.integers(1, 1000), st.integers(1, 1000)
    ),
    st.floats(0.1, 1000),
    st.booleans(),
)
def test_nothing_is_lost_by_advice(measured: TopicTraffic, latency_ms: float, keyed: bool) -> None:
    traffic = measured.traffic(latency_ms, keyed=keyed)
    saved = savings(measured, traffic, advise(traffic))
    assert saved.entries >= 0 and saved.traffic_bytes >= 0
    assert saved.messages_per_entry >= (measured.messages_per_entry or 1.0)


def test_what_is_no_measure_is_refused() -> None:
    with pytest.raises(InvalidValue):
        TopicTraffic(0, 200, 1.0)
