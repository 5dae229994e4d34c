"""What the jump dialog finds by name: pages; tenants, namespaces and keys from the database; topics and subscriptions from the
broker."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpResponse, JsonResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page, visible_tenants
from admin_ui.addresses import short_name
from admin_ui.permissions import CONSOLE
from messaging.adminrpc.methods import NAMES_SEARCH
from messaging.adminrpc.topics import NamesSearch
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import NON_PERSISTENT
from tenants.models import Key, Namespace
from tenants.scoping import platform_scope

FOUND_MAX = 20
WORDS_LENGTH_MAX = 200
TENANTS_SEARCHED_MAX = 100  # for topics and subscriptions, in one question to the broker
PAGES = (
    ("Now", "now"),
    ("Tenants", "tenants"),
    ("Usage", "usage"),
    ("Tune producers", "tune"),
    ("People", "people"),
    ("Platform", "platform"),
    ("Tasks", "tasks"),
    ("New tenant", "tenant_create"),
    ("New person", "person_create"),
    ("Your sessions", "sessions"),
    ("Change password", "password"),
    ("Documentation", "docs"),
)
Entry = dict[str, str]


@page
def jump(request: ConsoleRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip().lower()[:WORDS_LENGTH_MAX]
    tenants = visible_tenants(request.actor, request.user)
    found = [*_pages(request, words), *_from_database(request, words, tenants)]
    note = ""
    if words and len(found) <= FOUND_MAX:
        more, note = _from_broker(request, words, tenants)
        found += more
    if len(found) > FOUND_MAX:
        note = f"Showing the first {FOUND_MAX} matches. Type more to narrow the search."
    elif not found:
        note = note or "No matches."
    return JsonResponse({"found": found[:FOUND_MAX], "note": note})


def _pages(request: ConsoleRequest, words: str) -> Iterator[Entry]:
    for label, name in PAGES:
        if words and words in label.lower() and request.actor.may(CONSOLE["GET", f"console:{name}"]):
            yield _entry(label, "page", name)


def _from_database(request: ConsoleRequest, words: str, tenants: list[str]) -> list[Entry]:
    found = [_entry(name, "tenant", "tenant", name) for name in tenants if words in name.lower()][: FOUND_MAX + 1]
    with platform_scope():
        namespaces = Namespace.objects.filter(tenant__in=tenants, name__icontains=words)
        names = list(namespaces.values_list("tenant_id", "name")[: FOUND_MAX + 1])
        request.actor.grants.read_namespaces([name for _, name in names])
        found += [
            _entry(name, "namespace", "namespace", *name.split("/"))
            for tenant, name in names
            if request.actor.may(Action.NAMESPACE_READ, Resource(tenant, name))
        ]
        if words:
            keys = Key.objects.filter(tenant__in=tenants, name__icontains=words, revoked_at=None).values_list("tenant", "name")
            found += [
                _entry(f"{name}@{tenant}", "key", "keys", tenant)
                for tenant, name in keys[: FOUND_MAX + 1]
                if request.actor.may(Action.KEY_ADMIN, Resource(tenant))
            ]
    return found


def _from_broker(request: ConsoleRequest, words: str, tenants: list[str]) -> tuple[list[Entry], str]:
    """In the tenants in which the user may see all names of topics."""
    tenants = [name for name in tenants if request.actor.may(Action.NAMESPACE_READ, Resource(name))]
    everywhere = request.actor.may(Action.SUPERUSER)
    searched = [] if everywhere else tenants[:TENANTS_SEARCHED_MAX]
    search = NamesSearch(words=words, tenants=searched, everywhere=everywhere, limit=FOUND_MAX + 1)
    answer, away = broker.ask_or_why(lambda rpc: rpc.call(NAMES_SEARCH, search))
    if answer is None:
        return [], f"Topics and subscriptions could not be searched: {away}"
    found = [_topic(topic) for topic in answer.topics]
    found += [_subscription(each.topic, each.name) for each in answer.subscriptions]
    return found, f"Topics were searched in the first {len(searched)} tenants only." if len(searched) < len(
        tenants
    ) and not everywhere else ""


def _subscription(topic: str, name: str) -> Entry:
    return _entry(f"{name} on {_label(topic)}", "subscription", "subscription", *_place(topic), name)


def _topic(topic: str) -> Entry:
    return _entry(_label(topic), "topic", "topic", *_place(topic))


def _label(topic: str) -> str:
    return topic if topic.startswith(f"{NON_PERSISTENT}://") else topic.partition("://")[2]


def _place(topic: str) -> tuple[str, str, str]:
    """As the addresses of pages have it."""
    tenant, namespace, _ = topic.partition("://")[2].split("/", 2)
    return tenant, namespace, short_name(topic)


def _entry(label: str, kind: str, route: str, *args: str) -> Entry:
    return {"label": label, "kind": kind, "url": reverse(f"console:{route}", args=args)}
