"""What of messages is hidden from somebody: the policy `masked_fields`, for whoever may read messages but not consume them."""

from __future__ import annotations

from messaging.errors import InvalidValue, NotAuthorized
from messaging.payloads.masks import NO_MASKS, Masks, parse_masks
from messaging.permissions.model import Action
from messaging.policies.resolution import resolve_policy
from messaging.protocol.names import TopicName
from tenants.access import Actor
from tenants.actions.policy_views import levels_of_namespace
from tenants.actions.topics import topic_resource
from tenants.broker_settings import policy_defaults
from tenants.models import Namespace
from tenants.scoping import tenant_scope

POLICY = "masked_fields"


def masks_of(actor: Actor, topic: TopicName) -> Masks:
    """Of a topic, for this actor. Reads the database."""
    if actor.may(Action.CONSUME, topic_resource(topic)):
        return NO_MASKS
    with tenant_scope(topic.tenant):
        row = Namespace.objects.select_related("tenant").filter(name=str(topic.namespace)).first()
    if row is None:  # it is being deleted
        return Masks(key=True, payload=True)
    try:
        return parse_masks(resolve_policy(POLICY, levels_of_namespace(row), policy_defaults()).value)
    except InvalidValue:  # of a release that knows more rules: nothing is shown that it may hide
        return Masks(key=True, payload=True)


def require_unmasked(actor: Actor, topic: TopicName) -> None:
    """For what answers messages as they are stored. Raises `NotAuthorized`."""
    if masks_of(actor, topic).any:
        raise NotAuthorized(
            f"parts of messages in {topic.namespace} are masked for you: browse them, or have an administrator of the tenant let "
            "you consume"
        )
