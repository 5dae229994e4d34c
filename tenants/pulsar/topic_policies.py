"""Policies of a topic and of its subscriptions: the paths below a topic, and ``?applied=true`` for the value in force."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from messaging.errors import PreconditionFailed
from messaging.policies.pulsar import backlog_quotas
from messaging.policies.pulsar_topics import SUBSCRIPTION_DISPATCH_RATE, TopicPath
from messaging.policies.resolution import Levels, resolve_policy
from messaging.policies.validation import JsonPolicies
from messaging.protocol.names import TopicName
from tenants import actions
from tenants.actions.policy_views import levels_of
from tenants.broker_settings import policy_defaults
from tenants.http.views import View, actor, body, done, flag, number, route, value_or_nothing
from tenants.models import TopicPolicies
from tenants.names import subscription_of, topic_of
from tenants.pulsar.bodies import POLICY_GIVEN
from tenants.pulsar.namespace_policies import as_precondition, requested_quota_changes
from tenants.pulsar.rows import as_missing

_NO_CONTENT = ("maxConsumersPerSubscription", "maxSubscriptionsPerTopic", "maxMessageSize", "publishRate")
"""Paths that Pulsar answers with 204, not 200, where nothing is set."""


def stored(topic: TopicName) -> TopicPolicies:
    with as_missing(topic):
        return actions.topic_policies(topic)


def topic_policy_view(path: TopicPath) -> View:
    """A view that reads, sets and unsets the policies behind one of Pulsar's paths below a topic, or a subscription of it."""

    def read(request: HttpRequest, subscription: str = "", **parts: str) -> HttpResponse:
        _check_local(request)
        row = stored(topic_of(parts))
        of = subscription_of(subscription) if subscription else ""
        if path.knows_applied and flag(request, "applied"):
            value = path.applied(levels_of(row, of), policy_defaults())
        else:
            value = path.read(row.subscriptions.get(of, {}) if of else row.policies)
        return done() if value is None and path.path in _NO_CONTENT else value_or_nothing(value)

    def write(request: HttpRequest, subscription: str = "", **parts: str) -> None:
        _check_local(request)
        changes = {policy.name: None for policy in path.policies} if request.method == "DELETE" else given(request)
        _set(request, topic_of(parts), changes, subscription_of(subscription) if subscription else "")

    def given(request: HttpRequest) -> JsonPolicies:
        if not path.in_query:
            with as_precondition():
                return path.changes(body(request, POLICY_GIVEN))
        text = request.GET.get(path.path, "")
        value = number(text, path.path, least=-(2**31)) if text else None
        with as_precondition():
            return path.changes(value)

    handlers = {"GET": read, path.set_by: write, **({"DELETE": write} if path.can_unset else {})}
    return route(**handlers)


def _set(request: HttpRequest, topic: TopicName, changes: JsonPolicies, subscription: str = "") -> None:
    with as_missing(topic), as_precondition():
        actions.set_topic_policies(actor(request), topic, changes, subscription)


def _check_local(request: HttpRequest) -> None:
    if flag(request, "isGlobal"):
        raise PreconditionFailed("isGlobal is for policies that are replicated to other clusters, and there is one: leave it out")


def _remove_all(request: HttpRequest, **parts: str) -> None:
    topic = topic_of(parts)
    with as_missing(topic):
        actions.remove_topic_policies(actor(request), topic)


# --- backlog quotas: one path for two policies of two fields each ---------------------------------------------------------------


def _get_quotas(request: HttpRequest, **parts: str) -> dict[str, Any]:
    _check_local(request)
    row = stored(topic_of(parts))
    if not flag(request, "applied"):
        return backlog_quotas(row.policies)
    return quotas_in_force(levels_of(row))


def quotas_in_force(levels: Levels) -> dict[str, Any]:
    broker = policy_defaults()
    names = ("backlog_quota_bytes", "backlog_quota_bytes_policy", "backlog_quota_age_s", "backlog_quota_age_policy")
    return backlog_quotas({name: resolve_policy(name, levels, broker).value for name in names})


def _set_quota(request: HttpRequest, **parts: str) -> None:
    _check_local(request)
    _set(request, topic_of(parts), requested_quota_changes(request))


subscription_dispatch_rate_view = topic_policy_view(SUBSCRIPTION_DISPATCH_RATE)
all_view = route(DELETE=_remove_all)
quotas_view = route(GET=_get_quotas)
quota_view = route(POST=_set_quota, DELETE=_set_quota)
