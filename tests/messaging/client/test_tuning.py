from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.client.arguments import producer_options
from messaging.client.errors import InvalidValue
from messaging.client.tuning import Traffic, advise, contradictions

traffics = st.builds(
    Traffic,
    st.integers(1, 6_000_000),
    st.floats(0.01, 1e7),
    st.integers(1, 1000),
    st.floats(0.01, 10_000),
    st.booleans(),
)


def split(arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    memory = arguments.pop("memory_bytes_max")
    return arguments, memory


@given(traffics)
def test_what_is_advised_is_valid_and_contradicts_nothing(traffic: Traffic) -> None:
    arguments, memory = split(advise(traffic).as_arguments())
    options = producer_options(**arguments)
    assert [text for text in contradictions(options, memory, traffic) if "holds less" in text or "can never" in text] == []
    assert all(setting.reason for setting in advise(traffic).settings)


def test_the_template_of_the_reference() -> None:
    advice = advise(Traffic(message_bytes=1000, messages_per_s=50_000, partitions=8, latency_ms=20)).as_arguments()
    assert advice["pending_max"] == 2000 and advice["batch_messages_max"] == 1000, "half of what may be pending"
    assert advice["pending_across_partitions_max"] == 16_000
    assert advice["memory_bytes_max"] == 16 << 20 and advice["batch_bytes_max"] == 1 << 20
    assert (advice["batch_delay_ms"], advice["compression"], advice["routing"]) == (20, "zstd", "round_robin")


def test_rare_messages_wait_for_nothing() -> None:
    assert advise(Traffic(100, 1.0)).as_arguments()["batching"] is False
    keyed = advise(Traffic(100, 1000, partitions=100, latency_ms=10, keyed=True))
    assert any("fewer partitions" in warning for warning in keyed.warnings)


@pytest.mark.parametrize(
    ("arguments", "memory", "warning"),
    [
        ({"pending_max": 500, "batch_messages_max": 1000}, 64 << 20, "can never have batch_messages_max = 1000"),
        ({"pending_max": 1000, "batch_messages_max": 800}, 64 << 20, "more than half"),
        ({"batch_messages_max": 100, "batch_bytes_max": 2 << 20}, 1 << 20, "holds less than one batch"),
        ({"batch_messages_max": 100, "batch_delay_ms": 2000, "send_timeout_s": 1}, 64 << 20, "time out"),
        ({"batch_messages_max": 10, "pending_across_partitions_max": 800}, 64 << 20, "leaves 100 for each of 8"),
        ({"batch_messages_max": 10, "batch_delay_ms": 0.01}, 64 << 20, "only 0.1 messages come"),
        ({"batch_messages_max": 10, "batch_bytes_max": 1500}, 64 << 20, "holds one message of 1000 bytes"),
    ],
)
def test_settings_that_do_not_do_what_they_say(arguments: dict[str, Any], memory: int, warning: str) -> None:
    warnings = contradictions(producer_options(**arguments), memory, Traffic(1000, 10_000, partitions=8))
    assert any(warning in text for text in warnings), warnings
    assert contradictions(producer_options(batch_messages_max=100), 64 << 20) == []


def test_a_message_larger_than_the_broker_takes_is_a_matter_of_chunks() -> None:
    assert any("chunking" in warning for warning in advise(Traffic(6 << 20, 1.0)).warnings)
    with pytest.raises(InvalidValue):
        Traffic(0, 1.0)
