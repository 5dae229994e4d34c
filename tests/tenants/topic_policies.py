"""A topic of `acme/orders`, and the paths of its policies over Pulsar's admin API."""

from __future__ import annotations

from typing import Any

from messaging.policies.pulsar_topics import SUBSCRIPTION_DISPATCH_RATE, TOPIC_PATHS, TopicPath
from messaging.protocol.names import parse_topic
from tests.support.policy_examples import EXAMPLES, OF_TOPICS
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
AT = "/admin/v2/persistent/acme/orders/t"
PATHS: dict[str, TopicPath] = {**TOPIC_PATHS, "s/dispatchRate": SUBSCRIPTION_DISPATCH_RATE}


def example(path: TopicPath) -> Any:
    return {**EXAMPLES, **OF_TOPICS}[path.of or path.path][0]


def value_of(answer: Any) -> Any:
    """The JSON of an answer; None where it is empty, as for what is not set."""
    assert answer.status_code in (200, 204), answer.content
    return answer.json() if answer.content else None


def put(call: Caller, path: str, value: Any) -> Any:
    row = PATHS[path]
    if row.in_query:
        return call(row.set_by, f"{AT}/{path}?{row.path}={value}")
    return call(row.set_by, f"{AT}/{path}", value)


def told(world: World) -> dict[str, Any] | None:
    """What the broker knows of the topic."""
    return world.broker.state.get(("topic", TOPIC))
