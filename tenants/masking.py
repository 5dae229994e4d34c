"""What of messages is hidden from somebody: the policy `masked_fields`, for whoever may read messages but not consume them.

Who may not even read messages is shown lists of dead letters, and filters that others looked with: of them keys and properties are
hidden, whatever the policy says (`masks_of_lists`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from messaging.broker.core.dead_letters.redrive import ORIGIN_SUBSCRIPTION, ORIGIN_TOPIC, REASON
from messaging.errors import InvalidValue, NotAuthorized
from messaging.payloads.masks import MASK, NO_MASKS, Masks, parse_masks, properties_but
from messaging.permissions.model import Action, Resource
from messaging.policies.model import Level
from messaging.policies.resolution import Levels, resolve_policy
from messaging.protocol.names import TopicName
from tenants.access import Actor
from tenants.actions.policy_views import levels_of_namespace
from tenants.actions.topics import topic_resource
from tenants.broker_settings import policy_defaults
from tenants.models import Namespace, Tenant
from tenants.scoping import tenant_scope

POLICY = "masked_fields"
EVERYTHING = Masks(key=True, payload=True, properties=properties_but())
# Of who reads no messages: why a message is a dead letter, and where it came from, are what redrives go by.
_UNREAD = Masks(key=True, payload=True, properties=properties_but(REASON, ORIGIN_TOPIC, ORIGIN_SUBSCRIPTION))


def masks_of(actor: Actor, topic: TopicName) -> Masks:
    """Of a topic, for this actor. Reads the database."""
    if actor.may(Action.CONSUME, topic_resource(topic)):
        return NO_MASKS
    with tenant_scope(topic.tenant):
        row = Namespace.objects.select_related("tenant").filter(name=str(topic.namespace)).first()
    return _of_levels(levels_of_namespace(row)) if row is not None else EVERYTHING  # None: it is being deleted


def _of_levels(levels: Levels) -> Masks:
    try:
        return parse_masks(resolve_policy(POLICY, levels, policy_defaults()).value)
    except InvalidValue:  # of a release that knows more rules: nothing is shown that it may hide
        return EVERYTHING


def masks_of_lists(actor: Actor, topic: TopicName) -> Masks:
    """Of what is shown without the right to read messages: dead letters in lists, filters of redrives and of the audit log. Reads
    the database."""
    masks = masks_of(actor, topic)
    return masks if actor.may(Action.MESSAGE_READ, topic_resource(topic)) else masks.and_also(_UNREAD)


def masks_of_tenant(actor: Actor, tenant: str) -> Masks:
    """The same of lists over all topics of a tenant: what is hidden in any of its namespaces. Reads the database."""
    whole = Resource(tenant)
    if actor.may(Action.CONSUME, whole):
        return NO_MASKS
    masks = NO_MASKS if actor.may(Action.MESSAGE_READ, whole) else _UNREAD
    with tenant_scope(tenant):
        row = Tenant.objects.filter(name=tenant).first()
        if row is None:
            return EVERYTHING
        rules = {
            json.dumps(policies[POLICY]) for policies in Namespace.objects.values_list("policies", flat=True) if POLICY in policies
        }
    for levels in ({Level.TENANT: row.policies}, *({Level.NAMESPACE: {POLICY: json.loads(each)}} for each in rules)):
        masks = masks.and_also(_of_levels(levels))
    return masks


def shown_filter(wanted: Mapping[str, Any], masks: Masks) -> dict[str, Any]:
    """The filter of a redrive, as `RedriveFilter` names its parts: what somebody else looked for may be hidden from who sees it."""
    shown = dict(wanted)
    if masks.key and shown.get("key"):
        shown["key"] = MASK
    if shown.get("property_value") and masks.hides_property(str(shown.get("property_name", ""))):
        shown["property_value"] = MASK
    if shown.get("reason") and masks.hides_property(REASON):
        shown["reason"] = MASK
    return shown


def require_unmasked(actor: Actor, topic: TopicName) -> None:
    """For what answers messages as they are stored. Raises `NotAuthorized`."""
    if masks_of(actor, topic).any:
        raise NotAuthorized(
            f"parts of messages in {topic.namespace} are masked for you: browse them, or have an administrator of the tenant let "
            "you consume"
        )
