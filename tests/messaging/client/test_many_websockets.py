"""A small part of `make websockets`, from one seed: clients with a WebSocket each, of which some leave and come back."""

from __future__ import annotations

from tests.benchmarks.many_websockets import CLIENTS_OF_A_TOPIC, Crowd, live
from tests.support.brokers.running_broker import RunningBroker


async def test_nothing_is_lost_or_comes_twice_where_many_websockets_live_at_once(broker: RunningBroker) -> None:
    messages, websockets = 2, 10 * CLIENTS_OF_A_TOPIC
    crowd = Crowd(broker.ws_url, "persistent://acme/orders/many", websockets, messages, seed=7, key=broker.token("owner"))
    result = await live(crowd)
    assert result.received == websockets * CLIENTS_OF_A_TOPIC * 2 * messages
