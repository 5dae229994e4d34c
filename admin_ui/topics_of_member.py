"""The topics of somebody who may read some topics of a tenant only, by a role for those whose names match a pattern."""

from __future__ import annotations

from typing import NamedTuple

from django.urls import reverse

from admin_ui import broker
from admin_ui.addresses import short_name
from admin_ui.pages import sentence
from admin_ui.translation.said import said
from messaging.adminrpc.methods import NAMES_SEARCH
from messaging.adminrpc.topics import NamesSearch
from messaging.permissions.model import Action, Resource, Scope
from messaging.protocol.names import parse_topic
from tenants.access import Actor

SEARCHED_MAX = 100  # names in which the longest part of the pattern occurs


class MemberTopic(NamedTuple):
    name: str
    url: str


class MemberTopics(NamedTuple):
    """`scopes`, in words: where the roles hold. `more`: there may be further topics. `away`: why they are not known."""

    scopes: list[str]
    topics: list[MemberTopic]
    more: bool = False
    away: str = ""


def topic_scopes(actor: Actor, tenant: str) -> list[Scope]:
    """Where the actor may read topics, and not what is around them."""
    found = []
    for binding in actor.grants.bindings(tenant, actor.principal.role):
        scope = binding.scope
        reads = bool(scope.topics) and Action.NAMESPACE_READ in binding.actions
        if reads and not actor.may(Action.NAMESPACE_READ, Resource(tenant, scope.namespace)):
            found.append(scope)
    return found


def topics_of_member(actor: Actor, tenant: str) -> MemberTopics | None:
    """None for somebody of whom there are none. Asks the brokers."""
    scopes = topic_scopes(actor, tenant)
    if not scopes:
        return None
    names: set[str] = set()
    more, away = False, ""
    for scope in scopes:
        words = max(scope.topics.lower().split("*"), key=len)
        asked = NamesSearch(words=words, tenants=[tenant], limit=SEARCHED_MAX)
        found, why = broker.ask_or_why(lambda rpc, asked=asked: rpc.call(NAMES_SEARCH, asked))  # type: ignore[misc]
        away = away or why
        if found is not None:
            more = more or len(found.topics) >= SEARCHED_MAX
            names.update(name for name in found.topics if actor.may(Action.NAMESPACE_READ, _resource(name)))
    return MemberTopics([said(str(scope)) for scope in scopes], [_topic(name) for name in sorted(names)], more, sentence(away))


def _resource(name: str) -> Resource:
    topic = parse_topic(name)
    return Resource(topic.tenant, str(topic.namespace), name)


def _topic(name: str) -> MemberTopic:
    topic = parse_topic(name)
    namespace = str(topic.namespace).partition("/")[2]
    short = short_name(name)
    return MemberTopic(f"{namespace}/{short}", reverse("console:topic", args=[topic.tenant, namespace, short]))
