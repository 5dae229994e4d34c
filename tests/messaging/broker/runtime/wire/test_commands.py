"""What commands are answered while the stores of a broker close."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Unavailable
from tests.support.clients.consuming import TOPIC
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
COMMANDS: list[tuple[Any, dict[str, Any]]] = [
    (C.PRODUCER, {"topic": TOPIC, "producer_id": 1}),
    (C.SUBSCRIBE, {"topic": TOPIC, "subscription": "s", "consumer_id": 1, "sub_type": pb.Subscribe.Shared}),
    (C.PARTITIONED_METADATA, {"topic": TOPIC}),
    (C.GET_TOPICS_OF_NAMESPACE, {"namespace": "acme/orders"}),
]


@pytest.mark.parametrize(("kind", "fields"), COMMANDS, ids=[pb.Command.Type.Name(kind) for kind, _ in COMMANDS])
async def test_what_needs_a_store_that_stopped_is_to_be_tried_again(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, kind: Any, fields: dict[str, Any]
) -> None:
    client = await world.connected("owner")

    async def stopped(*arguments: Any, **options: Any) -> None:
        raise Unavailable("the metadata store is not running")

    for name in ("get_topic", "get_partitioned", "list_topics"):
        monkeypatch.setattr(world.meta, name, stopped)
    client.say(kind, **fields)
    answer = await client.next()
    assert answer.body.error == pb.ServiceNotReady, answer
