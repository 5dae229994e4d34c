"""What the jump dialog finds: tenants and namespaces from the database, topics of the namespace that the words name, from the
broker.
"""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page, visible_tenants
from messaging.adminrpc.schema import TopicsList
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import parse_topic
from tenants.models import Namespace
from tenants.scoping import platform_scope

FOUND_MAX = 20
NAMESPACES_SEARCHED_MAX = 4  # for topics, each of which is a question to the broker


@page
def jump(request: ConsoleRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip().lower()[:200]
    tenants = visible_tenants(request.actor, request.user)
    with platform_scope():
        rows = Namespace.objects.filter(tenant__in=tenants, name__icontains=words.rpartition("/")[0] or words)
        if words.count("/") >= 2:
            rows = Namespace.objects.filter(tenant__in=tenants, name__iexact="/".join(words.split("/")[:2]))
        namespaces = list(rows.values_list("name", flat=True)[: FOUND_MAX + 1])
    found = [_entry(name, "tenant", "tenant", name) for name in tenants if words in name.lower()]
    found += [_entry(name, "namespace", "namespace", *name.split("/")) for name in namespaces if words in name.lower()]
    note = ""
    if words and len(found) < FOUND_MAX:
        topics, note = _topics(request, words, namespaces if namespaces else _all_namespaces(tenants))
        found += topics
    if not found:
        note = note or "Nothing that you may see has these words in its name."
    return JsonResponse(
        {"found": found[:FOUND_MAX], "note": note if len(found) <= FOUND_MAX else f"The first {FOUND_MAX}. Go on typing."}
    )


def _all_namespaces(tenants: list[str]) -> list[str]:
    with platform_scope():
        return list(Namespace.objects.filter(tenant__in=tenants).values_list("name", flat=True)[: NAMESPACES_SEARCHED_MAX + 1])


def _topics(request: ConsoleRequest, words: str, namespaces: list[str]) -> tuple[list[dict[str, str]], str]:
    """Topics of the first few namespaces, and a word about what was not looked at."""
    found: list[dict[str, str]] = []
    note = ""
    if len(namespaces) > NAMESPACES_SEARCHED_MAX:
        note = f"Topics of the first {NAMESPACES_SEARCHED_MAX} namespaces only: type tenant/namespace/ to say which."
    for name in namespaces[:NAMESPACES_SEARCHED_MAX]:
        if not request.actor.may(Action.NAMESPACE_READ, Resource(name.partition("/")[0], name)):
            continue
        answer, away = broker.ask_or_why(lambda rpc, name=name: rpc.call("topics.list", TopicsList(namespace=name)))  # type: ignore[misc]
        if answer is None:
            return found, f"Topics are missing here: {away}"
        topics = {*answer.partitioned, *(str(parse_topic(topic).base) for topic in answer.topics)}
        for topic in sorted(topics):
            label = topic.partition("://")[2]
            if words in label.lower():
                found.append(_entry(label, "topic", "topic", *label.split("/", 2)))
    return found, note


def _entry(label: str, kind: str, route: str, *args: str) -> dict[str, str]:
    return {"label": label, "kind": kind, "url": reverse(f"console:{route}", args=args)}
