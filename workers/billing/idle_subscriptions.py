"""Which subscriptions let messages wait and have no consumer: asked of the broker, for the topics that cost most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from messaging.adminrpc.methods import TOPICS_FIGURES
from messaging.adminrpc.topics import TopicRef
from messaging.errors import MagnetarError, NotFound
from tenants import broker
from workers.billing.outlook import NAMES_MAX, WAITING, Saving

ASKED_MAX = 20  # topics of one answer


def with_subscriptions(found: Sequence[Saving]) -> list[Saving]:
    """The same with the names of idle subscriptions, where usage does not tell them and the broker does. Blocks; raises nothing."""
    asked, away, named = 0, False, []
    for one in found:
        if one.why == WAITING and not one.subscriptions and asked < ASKED_MAX and not away:
            asked += 1
            try:
                one = replace(one, subscriptions=_idle(one.topic))
            except NotFound:  # it was deleted
                pass
            except MagnetarError:
                away = True
        named.append(one)
    return named


def _idle(topic: str) -> tuple[str, ...]:
    subscriptions = broker.rpc().call(TOPICS_FIGURES, TopicRef(topic=topic)).stats["subscriptions"]
    idle = [name for name, one in subscriptions.items() if one["durable"] and one["deliveryHealth"] == "abandoned"]
    return tuple(sorted(idle)[:NAMES_MAX])
