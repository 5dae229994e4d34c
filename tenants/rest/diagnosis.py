"""Why nothing is published or delivered, and what became of a message."""

from __future__ import annotations

from msgspec.structs import replace
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.diagnosis import (
    MessageTraced,
    SubscriptionExplain,
    SubscriptionExplained,
    TopicExplain,
    TopicExplained,
)
from messaging.adminrpc.methods import MESSAGES_TRACE, SUBSCRIPTIONS_EXPLAIN, TOPICS_EXPLAIN
from messaging.payloads.masks import MASK
from tenants import broker
from tenants.masking import masks_of_lists
from tenants.names import subscription_of, topic_of, trace_of
from tenants.rest.base import View
from tenants.rest.schema import describe


class Explain(View):
    @describe("What keeps a subscription from being sent messages now", SubscriptionExplained)
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        topic = topic_of(parts)
        asked = SubscriptionExplain(topic=str(topic), subscription=subscription_of(subscription))
        explained = broker.rpc().call(SUBSCRIPTIONS_EXPLAIN, asked)
        if masks_of_lists(self.actor(), topic).key:
            _hide_keys(explained)
        return Response(explained)


class TopicExplanation(View):
    @describe("What keeps messages from being published to a topic now", TopicExplained)
    def get(self, request: Request, **parts: str) -> Response:
        return Response(broker.rpc().call(TOPICS_EXPLAIN, TopicExplain(topic=str(topic_of(parts)))))


class Trace(View):
    @describe("What became of a message, by its id: ledger:entry", MessageTraced)
    def get(self, request: Request, message_id: str, **parts: str) -> Response:
        return Response(broker.rpc().call(MESSAGES_TRACE, trace_of(str(topic_of(parts)), message_id)))


def _hide_keys(explained: SubscriptionExplained) -> None:
    """Sentences name them, too."""
    for finding in explained.findings:
        if finding.key:
            name = repr(finding.key)
            finding.sentence, finding.key = finding.sentence.replace(name, MASK), MASK
            explained.sentence = explained.sentence.replace(name, MASK)
            explained.problems = [replace(each, sentence=each.sentence.replace(name, MASK)) for each in explained.problems]
