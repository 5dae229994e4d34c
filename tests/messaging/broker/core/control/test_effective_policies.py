"""What holds for topics of change events, whatever is set on them."""

from __future__ import annotations

from messaging.broker.core.control.effective_policies import OF_CHANGE_EVENTS, EffectivePolicies
from messaging.broker.core.control.view import ControlView
from messaging.policies.model import Level
from messaging.policies.registry import POLICIES
from messaging.policies.resolution import defaults
from messaging.policies.validation import valid_value
from messaging.protocol.names import parse_topic
from messaging.settings import Settings


def test_change_events_follow_policies_of_their_own() -> None:
    view = ControlView(superuser_roles=(), policy_defaults=defaults(Settings()), anonymous_public=False)
    policies = EffectivePolicies(view)
    events, other = parse_topic("acme/orders/__change_events"), parse_topic("acme/orders/t")
    for name, value in OF_CHANGE_EVENTS.items():
        assert valid_value(POLICIES[name], value) == value
        assert policies.resolved(name, events) == (value, Level.BROKER) and policies.value(name, events) == value
        assert policies.value(name, other) == view.policy(name, "acme/orders").value
    assert policies.message_ttl_s(events) == 0
