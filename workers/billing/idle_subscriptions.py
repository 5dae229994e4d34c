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


def with_subscriptions(savings: Sequence[Saving]) -> list[Saving]:
    """The same with the names of idle subscriptions, where usage does not tell them and the broker does. Blocks; raises nothing."""
    asked, away, named = 0, False, []
    for saving in savings:
        if saving.why == WAITING and not saving.subscriptions and asked < ASKED_MAX and not away:
            asked += 1
            try:
                saving = replace(saving, subscriptions=_idle(saving.topic))
            except NotFound:  # it was deleted
                pass
            except MagnetarError:
                away = True
        named.append(saving)
    return named


def _idle(topic: str) -> tuple[str, ...]:
    subscriptions = broker.rpc().call(TOPICS_FIGURES, TopicRef(topic=topic)).stats["subscriptions"]
    idle = [name for name, stats in subscriptions.items() if stats["durable"] and stats["deliveryHealth"] == "abandoned"]
    return tuple(sorted(idle)[:NAMES_MAX])
