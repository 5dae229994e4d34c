from __future__ import annotations

import pytest

from messaging.broker.http.websocket.parameters import (
    ConsumerParameters,
    ProducerParameters,
    ReaderParameters,
    parse_query,
    read_parameters,
)
from messaging.errors import InvalidValue


def test_parameters_by_pulsars_names() -> None:
    producer = read_parameters(
        ProducerParameters, parse_query(b"producerName=p%201&initialSequenceId=5&batchingEnabled=true&other=1")
    )
    assert (producer.producer_name, producer.initial_sequence_id, producer.batching_enabled) == ("p 1", 5, True)
    consumer = read_parameters(ConsumerParameters, {"subscriptionType": "Shared", "pullMode": "true", "receiverQueueSize": "50"})
    assert (consumer.subscription_type, consumer.pull_mode, consumer.window) == ("Shared", True, 50)


def test_defaults_are_pulsars() -> None:
    consumer = read_parameters(ConsumerParameters, {})
    assert (consumer.subscription_type, consumer.subscription_mode, consumer.window) == ("Exclusive", "Durable", 1000)
    assert (consumer.negative_ack_redelivery_delay, consumer.pull_mode) == (60_000, False)
    assert read_parameters(ReaderParameters, {}).message_id == "latest"
    assert read_parameters(ProducerParameters, {"producerName": ""}).producer_name is None


def test_the_window_has_pulsars_bounds() -> None:
    for asked, window in (("0", 1), ("1", 1), ("1000", 1000), ("5000", 1000)):
        assert read_parameters(ConsumerParameters, {"receiverQueueSize": asked}).window == window
        assert read_parameters(ReaderParameters, {"receiverQueueSize": asked}).window == window


@pytest.mark.parametrize(
    ("kind", "query", "name"),
    [
        (ConsumerParameters, {"receiverQueueSize": "-1"}, "receiverQueueSize"),
        (ConsumerParameters, {"receiverQueueSize": "many"}, "receiverQueueSize"),
        (ConsumerParameters, {"subscriptionType": "shared"}, "subscriptionType"),
        (ConsumerParameters, {"ackTimeoutMillis": "999"}, "ackTimeoutMillis"),
        (ConsumerParameters, {"maxRedeliverCount": "3"}, "maxRedeliverCount"),
        (ConsumerParameters, {"maxRedeliverCount": "0", "subscriptionType": "Shared"}, "maxRedeliverCount"),
        (ConsumerParameters, {"maxRedeliverCount": "many", "subscriptionType": "Shared"}, "maxRedeliverCount"),
        (ConsumerParameters, {"deadLetterTopic": "persistent://acme/orders/dead", "subscriptionType": "Shared"}, "deadLetterTopic"),
        (ConsumerParameters, {"pullMode": "perhaps"}, "pullMode"),
        (ProducerParameters, {"messageRoutingMode": "Random"}, "messageRoutingMode"),
        (ProducerParameters, {"compressionType": "RAR"}, "compressionType"),
        (ProducerParameters, {"encryptionKeys": "k"}, "encryptionKeys"),
        (ProducerParameters, {"maxPendingMessages": str(2**31)}, "maxPendingMessages"),
    ],
)
def test_a_bad_parameter_is_named(kind: type[ConsumerParameters], query: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidValue, match=name):
        read_parameters(kind, query)


@pytest.mark.parametrize("query", [b"a=%ff", b"\xff", b"&".join(b"a%d=1" % i for i in range(100)), b"a=" + b"x" * 40_000])
def test_a_bad_query_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidValue, match="query"):
        parse_query(query)


def test_the_first_of_a_repeated_parameter_counts() -> None:
    assert parse_query(b"token=a&token=b&x=") == {"token": "a", "x": ""}
