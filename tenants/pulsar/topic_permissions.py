"""Permissions on single topics, of one topic or of several at once."""

from __future__ import annotations

from django.http import HttpRequest

from messaging.errors import InvalidValue, MagnetarError
from messaging.permissions.model import NOTHING, Resource
from messaging.protocol.names import TopicName, parse_topic
from tenants import actions
from tenants.actions.topics import topic_resource
from tenants.http.views import actor, body, route
from tenants.models import Grant
from tenants.pulsar.bodies import ACTIONS_GIVEN, GRANTS_GIVEN
from tenants.pulsar.topics import existing, partitions_of
from tenants.scoping import tenant_scope


def _get(request: HttpRequest, **parts: str) -> dict[str, list[str]]:
    """The effective permissions on the topic: its own grants and those of its namespace."""
    topic = _stored(existing(parts))
    actions_of: dict[str, set[str]] = {}
    with tenant_scope(topic.tenant):
        rows = Grant.objects.filter(namespace=str(topic.namespace), topic__in=["", str(topic), str(topic.base)])
        for role, granted in rows.values_list("role", "actions"):
            actions_of.setdefault(role, set()).update(granted)
    return {role: sorted(granted) for role, granted in actions_of.items()}


def _stored(topic: TopicName) -> TopicName:
    """Raises `TopicNotFound`; a topic that is not persistent may come and go."""
    if topic.persistent:
        partitions_of(topic)
    return topic


def _grant(request: HttpRequest, role: str, **parts: str) -> None:
    topic = _stored(existing(parts))
    actions.grant_permission(actor(request), str(topic.namespace), role, body(request, ACTIONS_GIVEN, []), str(topic))


def _revoke(request: HttpRequest, role: str, **parts: str) -> None:
    topic = existing(parts)
    actions.revoke_permission(actor(request), str(topic.namespace), role, str(topic))


# --- on several topics: only the body says which ---------------------------------------------------------------------------------


def _given(request: HttpRequest) -> list[actions.TopicRoles]:
    """Raises `InvalidValue`, `InvalidName`."""
    grants = body(request, GRANTS_GIVEN, [])
    return [actions.TopicRoles(parse_topic(grant.topic), grant.role, grant.actions) for grant in grants]


def resources(request: HttpRequest) -> list[Resource]:
    """What the body names; of a body that names nothing, or cannot be read, nothing: that is allowed to superusers alone."""
    try:
        return [topic_resource(grant.topic) for grant in _given(request)] or [NOTHING]
    except MagnetarError:
        return [NOTHING]


def _in_one_namespace(request: HttpRequest) -> tuple[str, list[actions.TopicRoles]]:
    """The namespace, and what is given on its topics, all of which exist."""
    given = _given(request)
    namespaces = {str(grant.topic.namespace) for grant in given}
    if len(namespaces) != 1:
        raise InvalidValue("the request has to name topics of one namespace: send one request for each")
    for topic in {grant.topic for grant in given}:
        _stored(topic)
    return namespaces.pop(), given


def _grant_on_topics(request: HttpRequest) -> None:
    namespace, given = _in_one_namespace(request)
    actions.grant_on_topics(actor(request), namespace, given)


def _revoke_on_topics(request: HttpRequest) -> None:
    namespace, given = _in_one_namespace(request)
    actions.revoke_on_topics(actor(request), namespace, given)


permissions_view = route(GET=_get)
permission_view = route(POST=_grant, DELETE=_revoke)
grants_view = route(resources, POST=_grant_on_topics)
revocations_view = route(resources, POST=_revoke_on_topics)
