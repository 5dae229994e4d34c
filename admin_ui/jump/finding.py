"""What somebody finds with some words: only what they may see, and a bounded number of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from django.db.models import Q, QuerySet
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, may_open
from admin_ui.addresses import short_name
from admin_ui.docs_site.search import search
from admin_ui.jump.places import (
    FILLERS,
    NAMESPACE,
    OF_SUBSCRIPTION,
    OF_TOPIC,
    PLATFORM,
    TENANT,
    WORD_LENGTH_MIN,
    Place,
    acts,
    matches,
    route_name,
)
from admin_ui.permissions import CONSOLE
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from messaging.adminrpc.methods import NAMES_SEARCH
from messaging.adminrpc.topics import NamesSearch, SearchResult
from messaging.permissions.model import NOTHING, Action, Resource
from messaging.policies.groups import SUBJECTS
from messaging.policies.model import Level
from messaging.protocol.names import NON_PERSISTENT
from tenants.actions.saved_views import views_of
from tenants.models import Key, Membership, Namespace, Tenant, User
from tenants.scoping import platform_scope, tenant_scope
from tenants.visible import open_tenants, sees_everything, tenants_for

OF_A_KIND_MAX = 20
TENANTS_SEARCHED_MAX = 100  # for topics and subscriptions, in one question to the broker
TENANTS_WITH_PAGES_MAX = 3  # besides that where the person is
NAMESPACES_A_LOOK, NAMESPACES_LOOKED_AT_MAX = 500, 5_000
NAMES_LOOKED_AT_MAX = 1_000  # of topics, where some may be of closed tenants
NAMED_MAX = 3  # topics and subscriptions on which actions are offered
DOCUMENTS_MAX = 3
DOCUMENTATION = "docs"
Entry = dict[str, str]


@dataclass
class Finder:
    """`words`: what was typed, in lower case. `tenants`: those that the person may see, thousands for administrators of the
    platform. `tenant`, `namespace` (local): where the person is, "" for nowhere."""

    request: ConsoleRequest
    words: str
    tenants: QuerySet[Tenant]
    tenant: str = ""
    namespace: str = ""
    notes: list[str] = field(default_factory=list)

    def found(self, limit: int) -> list[Entry]:
        """Up to one more than `limit`: what is called exactly so first, what begins so next; of these in the order of the kinds."""
        entries: dict[tuple[str, str], Entry] = {}
        for source in (
            self._views,
            self._places,
            self._policies,
            self._from_database,
            self._people,
            self._from_broker,
            self._documents,
        ):
            if source == self._documents and len(entries) > limit:
                break
            for entry in source():
                entries.setdefault((entry["kind"], entry["url"]), entry)
        return sorted(entries.values(), key=self._rank)[: limit + 1]

    def _rank(self, entry: Entry) -> int:
        label = entry["label"].lower()
        if entry["kind"] == DOCUMENTATION:
            return 3
        return 0 if label == self.words or label.endswith(f"/{self.words}") else 1 if label.startswith(self.words) else 2

    # --- from what the console is

    def _places(self) -> Iterator[Entry]:
        words = self.words.split()
        if not words:
            return
        yield from (self._entry(place.said(), "page", place.route) for place in PLATFORM if self._fits(place, words))
        of_tenants = 0
        for tenant in self._near_tenants(words):
            open_here = [place for place in TENANT if self._fits(place, words, Resource(tenant), tenant)]
            yield from (self._entry(place.said(tenant=tenant), _kind(place), place.route, tenant) for place in open_here)
            of_tenants += bool(open_here) and tenant != self.tenant
            if of_tenants == TENANTS_WITH_PAGES_MAX:
                break
        for name in self._near_namespaces(words):
            tenant, _, local = name.partition("/")
            for place in NAMESPACE:
                if self._fits(place, words, Resource(tenant, name), name):
                    yield self._entry(place.said(namespace=name), _kind(place), place.route, tenant, local)

    def _fits(self, place: Place, words: list[str], resource: Resource = NOTHING, name: str = "") -> bool:
        label = place.label.format(tenant=name, namespace=name)
        return matches(words, label, place.said(tenant=name, namespace=name), place.also) and self._may(place.route, resource)

    def _may(self, route: str, resource: Resource) -> bool:
        return self.request.actor.may(CONSOLE["GET", route_name(route)], resource)

    def _near_tenants(self, words: list[str]) -> list[str]:
        """Where the person is, and those that are named; all, if there are few. More than have pages here: some may be closed."""
        few = self._first_names(self.tenants, TENANTS_WITH_PAGES_MAX + 1)
        named = self._first_names(self.tenants.filter(_named_any(words)), TENANTS_SEARCHED_MAX)
        here = [self.tenant] if self.tenant else []
        return self._looked_up([*here, *(few if len(few) <= TENANTS_WITH_PAGES_MAX else []), *named])

    def _first_names(self, tenants: QuerySet[Tenant], count: int) -> list[str]:
        return list(tenants.order_by("name").values_list("name", flat=True)[:count])

    def _looked_up(self, tenants: Iterable[str]) -> list[str]:
        """Each once, with what is asked about it afterwards."""
        names = list(dict.fromkeys(tenants))
        self.request.actor.grants.read_tenants(names)
        return names

    @cached_property
    def _mine(self) -> list[str]:
        """Of somebody who does not administer the platform."""
        return self._looked_up(self.tenants.order_by("name").values_list("name", flat=True))

    def _near_namespaces(self, words: list[str]) -> list[str]:
        here = self._read_of([f"{self.tenant}/{self.namespace}"]) if self.namespace and self.tenant else []
        return list(dict.fromkeys([*here, *self._namespaces(_named_any(words), TENANTS_WITH_PAGES_MAX)]))

    def _namespaces(self, named: Q, count: int) -> list[str]:
        """The first of those that the person may read. Of more than are looked at a note says so."""
        found: list[str] = []
        with platform_scope():
            rows = Namespace.objects.filter(named, tenant__in=open_tenants(self.request.actor)).order_by("name")
            for start in range(0, NAMESPACES_LOOKED_AT_MAX, NAMESPACES_A_LOOK):
                names = list(rows.values_list("name", flat=True)[start : start + NAMESPACES_A_LOOK])
                found += self._read_of(names)
                if len(found) >= count or len(names) < NAMESPACES_A_LOOK:
                    return found[:count]
        note = gettext("The first {looked_at} namespaces that are called so were looked at. Type more to narrow the search.")
        self.notes += [text for text in [note.format(looked_at=NAMESPACES_LOOKED_AT_MAX)] if text not in self.notes]
        return found

    def _read_of(self, names: list[str]) -> list[str]:
        """Of these namespaces those that the person may read."""
        tenants = [name.partition("/")[0] for name in names]
        self._looked_up(tenants)
        self.request.actor.grants.read_namespaces(names)
        placed = zip(tenants, names, strict=True)
        return [name for tenant, name in placed if self.request.actor.may(Action.NAMESPACE_READ, Resource(tenant, name))]

    def _policies(self) -> Iterator[Entry]:
        """Of where the person is."""
        words = self.words.split()
        for subject in SUBJECTS.values() if words else ():
            if not matches(words, subject.title, said(subject.title), "policy"):
                continue
            name = f"{self.tenant}/{self.namespace}"
            if self.namespace and subject.at(Level.NAMESPACE) and self._may("policies", Resource(self.tenant, name)):
                entry = self._entry(
                    gettext("{title}: policy of {name}").format(title=said(subject.title), name=name),
                    "policy",
                    "policies",
                    self.tenant,
                    self.namespace,
                )
            elif self.tenant and subject.at(Level.TENANT) and self._may("tenant_policies", Resource(self.tenant)):
                entry = self._entry(
                    gettext("{title}: policy of {tenant}").format(title=said(subject.title), tenant=self.tenant),
                    "policy",
                    "tenant_policies",
                    self.tenant,
                )
            else:
                continue
            yield {**entry, "url": f"{entry['url']}?policy={subject.name}"}

    def _documents(self) -> Iterator[Entry]:
        """The best part of each of a few documents."""
        parts = search(self.words).matches if len(self.words) >= WORD_LENGTH_MIN else []
        best = {match.document.address: match for match in reversed(parts)}
        for match in [match for match in parts if best[match.document.address] is match][:DOCUMENTS_MAX]:
            label = match.heading if match.heading == match.document.title else f"{match.heading}: {match.document.title}"
            entry = self._entry(label, DOCUMENTATION, "docs_page", match.document.address)
            yield {**entry, "url": f"{entry['url']}#{match.anchor}" if match.anchor else entry["url"]}

    # --- from the database

    def _views(self) -> Iterator[Entry]:
        views = views_of(self.request.actor, self.request.user, self.words)
        for view in islice((view for view in views if may_open(self.request.actor, view.address)), OF_A_KIND_MAX):
            whose = "{view}" if view.owner_id == self.request.user.pk else gettext("{view} by {owner}")
            yield {"label": whose.format(view=view.name, owner=view.owner.username), "kind": "view", "url": view.address}

    def _from_database(self) -> Iterator[Entry]:
        words, request = self.words, self.request
        for name in self._first_names(self.tenants.filter(name__icontains=words), OF_A_KIND_MAX + 1):
            yield self._entry(name, "tenant", "tenant", name)
        for name in self._namespaces(Q(name__icontains=words), OF_A_KIND_MAX + 1):
            yield self._entry(name, "namespace", "namespace", *name.split("/"))
        if not words:
            return
        with platform_scope():
            named = Q(name__icontains=words) | Q(id=words)
            keys = Key.objects.filter(named, tenant__in=tenants_for(request.actor, Action.KEY_ADMIN), revoked_at=None)
            for tenant, name, number in keys.values_list("tenant", "name", "id")[: OF_A_KIND_MAX + 1]:
                yield self._entry(f"{name}@{tenant}", "key", "key", tenant, number)

    def _people(self) -> Iterator[Entry]:
        if not self.words:
            return
        named = Q(username__icontains=self.words) | Q(email__icontains=self.words)
        if self.request.actor.may(Action.SUPERUSER):
            for name in User.objects.filter(named).order_by("username").values_list("username", flat=True)[:OF_A_KIND_MAX]:
                yield self._entry(name, "person", "person", name)
            return
        seen = [name for name in self._mine if self.request.actor.may(Action.TENANT_READ, Resource(name))]
        for tenant in seen[:TENANTS_SEARCHED_MAX]:
            with tenant_scope(tenant):
                members = Membership.objects.filter(user__username__icontains=self.words, user__is_active=True)
                for name in dict.fromkeys(members.values_list("user__username", flat=True)[:OF_A_KIND_MAX]):
                    yield self._entry(gettext("{name}, of {tenant}").format(name=name, tenant=tenant), "person", "members", tenant)

    # --- from the broker

    def _from_broker(self) -> Iterator[Entry]:
        """Topics and subscriptions, in the tenants in which the person may see all their names; and what may be done with them."""
        if not self.words:
            return
        words = self.words.split()
        of_topic, of_subscription = (acts(places, words[0]) for places in (OF_TOPIC, OF_SUBSCRIPTION))
        named = " ".join(word for word in words[1:] if word not in FILLERS)
        acting = bool(named and (of_topic or of_subscription))
        answer = self._named(named if acting else self.words)
        if answer is None:
            return
        if acting:
            for each in answer.subscriptions[:NAMED_MAX]:
                for place in of_subscription:
                    if self._may(place.route, _resource(each.topic)):
                        label = place.said(name=_on(each.name, each.topic))
                        yield self._entry(label, "action", place.route, *_place(each.topic), each.name)
            for topic in answer.topics[:NAMED_MAX]:
                for place in of_topic:
                    if self._may(place.route, _resource(topic)):
                        yield self._entry(place.said(name=_label(topic)), "action", place.route, *_place(topic))
        for topic in answer.topics:
            yield self._entry(_label(topic), "topic", "topic", *_place(topic))
        for each in answer.subscriptions:
            yield self._entry(_on(each.name, each.topic), "subscription", "subscription", *_place(each.topic), each.name)

    def _named(self, words: str) -> SearchResult | None:
        everywhere = self.request.actor.may(Action.SUPERUSER)
        tenants = [] if everywhere else [name for name in self._mine if self._reads_all_of(name)]
        searched = tenants[:TENANTS_SEARCHED_MAX]
        # Of everywhere what is of closed tenants is left out of what comes back.
        limit = OF_A_KIND_MAX + 1 if not everywhere or sees_everything(self.request.actor) else NAMES_LOOKED_AT_MAX
        asked = NamesSearch(words=words, tenants=searched, everywhere=everywhere, limit=limit)
        answer, away = broker.ask_or_why(lambda rpc: rpc.call(NAMES_SEARCH, asked))
        if answer is None:
            self.notes.append(gettext("Topics and subscriptions could not be searched: {away}").format(away=away))
            return None
        if len(searched) < len(tenants):
            self.notes.append(gettext("Topics were searched in the first {searched} tenants only.").format(searched=len(searched)))
        named = [*answer.topics, *(each.topic for each in answer.subscriptions)]
        shown = {name for name in self._looked_up(_resource(topic).tenant for topic in named) if self._reads_all_of(name)}
        return SearchResult(
            topics=[topic for topic in answer.topics if _resource(topic).tenant in shown][: OF_A_KIND_MAX + 1],
            subscriptions=[each for each in answer.subscriptions if _resource(each.topic).tenant in shown][: OF_A_KIND_MAX + 1],
        )

    def _reads_all_of(self, tenant: str) -> bool:
        """Where a second factor is required not even who administers the platform does so without one."""
        return self.request.actor.may(Action.NAMESPACE_READ, Resource(tenant))

    def _entry(self, label: str, kind: str, route: str, *args: str) -> Entry:
        return {"label": label, "kind": kind, "url": reverse(route_name(route), args=args)}


def _named_any(words: list[str]) -> Q:
    wanted = Q()
    for word in words:
        wanted |= Q(name__icontains=word)
    return wanted


def _kind(place: Place) -> str:
    return "action" if place.acts else "page"


def _on(subscription: str, topic: str) -> str:
    return gettext("{subscription} on {topic}").format(subscription=subscription, topic=_label(topic))


def _label(topic: str) -> str:
    return topic if topic.startswith(f"{NON_PERSISTENT}://") else topic.partition("://")[2]


def _resource(topic: str) -> Resource:
    tenant, namespace, _ = topic.partition("://")[2].split("/", 2)
    return Resource(tenant, f"{tenant}/{namespace}", topic)


def _place(topic: str) -> tuple[str, str, str]:
    """As the addresses of pages have it."""
    tenant, namespace, _ = topic.partition("://")[2].split("/", 2)
    return tenant, namespace, short_name(topic)
