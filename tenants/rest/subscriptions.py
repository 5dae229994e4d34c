"""Dead-letter policies of subscriptions, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer
from messaging.bodies import sent_fields
from tenants.actions.subscriptions import dead_letter_policy, remove_dead_letter_policy, set_dead_letter_policy
from tenants.names import subscription_of
from tenants.rest import shapes
from tenants.rest.base import View
from tenants.rest.namespaces import found_topic
from tenants.rest.schema import describe


class DeadLetterPolicy(View):
    @describe("The dead-letter policy of a subscription", DeadLetterPolicyAnswer)
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        return Response(dead_letter_policy(self.actor(), topic, subscription_of(subscription)))

    @describe(
        "Set the dead-letter policy: messages that are redelivered too often move to another topic",
        DeadLetterPolicyAnswer,
        shapes.NewDeadLetterPolicy,
    )
    def put(self, request: Request, subscription: str, **parts: str) -> Response:
        given = self.read(shapes.NewDeadLetterPolicy)
        topic, _ = found_topic(parts)
        return Response(set_dead_letter_policy(self.actor(), topic, subscription_of(subscription), **sent_fields(given)))

    @describe("Remove the dead-letter policy; what waits to be moved is delivered again", None, status=204)
    def delete(self, request: Request, subscription: str, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        remove_dead_letter_policy(self.actor(), topic, subscription_of(subscription))
        return Response(status=204)
