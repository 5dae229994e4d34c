"""The bundles of a namespace: who has which; splitting and unloading one, each on a page that says first what that would do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.bundle_forms import BY_HASH, BY_RATE, WAYS, SplitForm, UnloadForm
from admin_ui.bundle_list import FIGURES, BundleRow, Placement, placement_of, placement_or_why
from admin_ui.form_pages import confirm_page, refused
from admin_ui.moves.texts import counted
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.row_list import Column, list_items
from admin_ui.translation.figures import rate
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.adminrpc.methods import NAMESPACES_LIVE, TOPICS_LIST
from messaging.adminrpc.topics import LiveAsked, TopicsList
from messaging.errors import Conflict, MagnetarError, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.policies.isolation import IsolationRules
from messaging.protocol.bundles import Boundaries, Bundle, by_bundle, parse_bundle
from tenants.actions.bundles import boundaries_of, check_unload, parts_of, split_bundle, unload_bundle
from tenants.actions.placement import isolation_policies

COLUMNS = (
    Column("bundle", gettext_lazy("Bundle"), value=lambda row: row.bundle),
    Column("broker", gettext_lazy("Broker"), value=lambda row: row.broker_id),
    *FIGURES,
)


class Place(NamedTuple):
    """A bundle, as an address names it. `back`: the page that led here, whose broker it shows."""

    tenant: str
    namespace: str
    boundaries: Boundaries
    bundle: Bundle
    back: str

    @property
    def name(self) -> str:
        return f"{self.tenant}/{self.namespace}"

    @property
    def above(self) -> list[tuple[str, str]]:
        bundles = reverse("console:bundles", args=[self.tenant, self.namespace])
        return crumbs(self.tenant, self.namespace, (gettext("Bundles"), bundles))


@page
def bundles(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    here = Resource(tenant, f"{tenant}/{namespace}")
    found, away = placement_or_why(here.namespace)
    rows = [] if found is None else [found.row(each) for each in found.owners]
    return show(
        request,
        "pages/bundles.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=crumbs(tenant),
        away=sentence(away),
        silent=[] if found is None else found.silent(),
        listed=list_items(request.GET, rows, COLUMNS, text=lambda row: f"{row.bundle} {row.broker_id}"),
        may_split=request.actor.may(Action.NAMESPACE_ADMIN, here),
        may_unload=request.actor.may(Action.OPERATE, here),
        at_ms=time.time_ns() // 1_000_000,
    )


# --- unloading ------------------------------------------------------------------------------------------------------------------


@page
def bundle_unload(request: ConsoleRequest, tenant: str, namespace: str, bundle: str) -> HttpResponse:
    try:
        place = _place(request, tenant, namespace, bundle)
        found = placement_of(place.name)
        owner = found.owner(str(place.bundle))
        if owner is None:
            raise Conflict(gettext("This bundle was split a moment ago: look again."))
        check_unload(owner, owner.broker_id)
    except MagnetarError as error:
        return _refused(request, tenant, namespace, error)
    takers = _takers(found, place.name, owner.broker_id)
    chooses = request.actor.may(Action.SUPERUSER) and _moves(found, owner.broker_id)
    form = UnloadForm(request.POST or None, takers=takers if chooses else [])

    def act() -> None:
        to_broker_id, shown = form.cleaned_data.get("to_broker", ""), request.POST.get("owner", "")
        unload_bundle(request.actor, place.name, str(place.bundle), to_broker_id, shown_owner_id=shown)

    def done() -> str:
        if to_broker := form.cleaned_data.get("to_broker"):
            return gettext("Bundle {bundle} is at broker {broker}.").format(bundle=place.bundle, broker=to_broker)
        return gettext("Bundle {bundle} was unloaded.").format(bundle=place.bundle)

    return confirm_page(
        request,
        navigation(request, "namespace", tenant, namespace),
        act,
        crumbs=place.above,
        heading=gettext("Unload bundle {bundle}").format(bundle=place.bundle),
        impact=_unloading(found, found.row(owner), takers),
        asking=form,
        given={"owner": owner.broker_id},
        submit=gettext("Unload bundle"),
        done=done,
        back=place.back,
    )


def _unloading(found: Placement, row: BundleRow, takers: Sequence[str]) -> list[str]:
    """What unloading does, a sentence each."""
    if row.load is None:
        lines = [gettext("What it does now is not known: broker {broker} is not responding.").format(broker=row.broker_id)]
    else:
        lines = [
            gettext("{topics} of it are loaded at broker {broker}, with {producers} and {consumers}.").format(
                topics=counted(row.load.topics, "topic"),
                broker=row.broker_id,
                producers=counted(row.load.producers, "producer"),
                consumers=counted(row.load.consumers, "consumer"),
            ),
            gettext("They are closed. Clients are disconnected from them, and connect again by themselves."),
        ]
    lines.append(gettext("Nothing is lost: what has no receipt is sent again, what is not acknowledged is delivered again."))
    if not _moves(found, row.broker_id):
        lines.append(gettext("It stays with broker {broker}, in whose log its messages are.").format(broker=row.broker_id))
    elif takers:
        lines.append(
            gettext(
                "Of the brokers that may have it, whichever then has the fewest bundles of the namespace takes it: {brokers}, or "
                "{broker} again."
            ).format(brokers=", ".join(takers), broker=row.broker_id)
        )
    else:
        lines.append(_nobody_else(found, row.broker_id))
    return lines


def _nobody_else(found: Placement, owner_id: str) -> str:
    if [each for each in found.running if each != owner_id]:
        return gettext("No other broker may have it, or takes bundles now: broker {broker} loads it again.").format(broker=owner_id)
    return gettext("There is no other broker: {broker} loads it again.").format(broker=owner_id)


# --- splitting ------------------------------------------------------------------------------------------------------------------


@page
def bundle_split(request: ConsoleRequest, tenant: str, namespace: str, bundle: str) -> HttpResponse:
    """Where to cut; then what that makes, to be confirmed: it is cut just where that was shown, whatever topics came meanwhile."""
    try:
        place = _place(request, tenant, namespace, bundle)
        found, rates, rates_known = placement_of(place.name), *_rates(place)
    except MagnetarError as error:
        return _refused(request, tenant, namespace, error)
    ways = [way for way in WAYS if way != BY_RATE or rates_known]
    choices = [(way, _choice(place, way, rates)) for way in ways]
    form = SplitForm(request.POST or None, bundle=place.bundle, ways=[*choices, (BY_HASH, gettext("Hashes of your choice"))])
    heading = gettext("Split bundle {bundle}").format(bundle=place.bundle)
    if form.is_bound and form.is_valid():
        cuts: list[int] = form.cleaned_data["hashes"]
        parts = parts_of(place.boundaries, place.bundle, rates, form.cleaned_data["way"], cuts)
        if len(parts) > 1:
            return _confirm_split(request, place, found, heading, parts, rates if rates_known else None)
        form.add_error(
            "way", gettext("There is nowhere to cut it like that: it has {topics}.").format(topics=counted(len(rates), "topic"))
        )
    return show(
        request,
        "pages/form.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=place.above,
        heading=heading,
        form=form,
        intro=gettext(
            "It has {topics}. A split closes nothing: topics go on where they are, and each part can move by itself from then on. "
            "Parts are never joined again."
        ).format(topics=counted(len(rates), "topic")),
        submit=gettext("Preview"),
        cancel_url=place.back,
    )


def _confirm_split(
    request: ConsoleRequest,
    place: Place,
    found: Placement,
    heading: str,
    parts: dict[Bundle, list[str]],
    rates: dict[str, float] | None,
) -> HttpResponse:
    cuts = [part.lower for part in list(parts)[1:]]
    return confirm_page(
        request,
        navigation(request, "namespace", place.tenant, place.namespace),
        lambda: split_bundle(request.actor, place.name, str(place.bundle), BY_HASH, cuts, must_cut=True),
        crumbs=place.above,
        heading=heading,
        impact=[*(_part(part, topics, rates) for part, topics in parts.items()), *_afterwards(found, place)],
        given={"way": BY_HASH, "hashes": " ".join(f"0x{cut:08x}" for cut in cuts)},
        submit=gettext("Split bundle"),
        done=gettext("Bundle {bundle} was split into {parts}.").format(bundle=place.bundle, parts=", ".join(map(str, parts))),
        back=place.back,
        cancel=request.get_full_path(),
    )


def _choice(place: Place, way: str, rates: dict[str, float]) -> str:
    parts = list(parts_of(place.boundaries, place.bundle, rates, way).values())
    if len(parts) == 1:
        return gettext("{way}: cuts nowhere").format(way=WAYS[way])
    return gettext("{way}: {first} and {second}").format(
        way=WAYS[way], first=counted(len(parts[0]), "topic"), second=counted(len(parts[1]), "topic")
    )


def _part(part: Bundle, topics: list[str], rates: dict[str, float] | None) -> str:
    if rates is None:
        return gettext("{bundle}: {topics}; how much flows there is not known now.").format(
            bundle=part, topics=counted(len(topics), "topic")
        )
    return gettext("{bundle}: {topics}, {messages} messages a second in and out.").format(
        bundle=part, topics=counted(len(topics), "topic"), messages=rate(sum(rates[topic] for topic in topics))
    )


def _afterwards(found: Placement, place: Place) -> list[str]:
    """Where the parts are, and where they may go."""
    owner = found.owner(str(place.bundle))
    if owner is None or not owner.broker_id:
        return [gettext("No broker has it now: each part is placed once a client needs it.")]
    stays = gettext("All parts stay at broker {broker}: nothing is closed, and no client connects again.").format(
        broker=owner.broker_id
    )
    takers = _takers(found, place.name, owner.broker_id)
    if not _moves(found, owner.broker_id):
        return [stays, gettext("None can move to another broker: what is stored stays in the log of its broker.")]
    if not takers:
        return [stays, gettext("No other broker may have them, or takes bundles now.")]
    return [stays, gettext("From then on each may move by itself, to: {brokers}.").format(brokers=", ".join(takers))]


# --- what both need -------------------------------------------------------------------------------------------------------------


def _place(request: ConsoleRequest, tenant: str, namespace: str, text: str) -> Place:
    """Raises `Conflict` where the namespace has no such bundle."""
    boundaries = boundaries_of(f"{tenant}/{namespace}")
    back = reverse("console:bundles", args=[tenant, namespace])
    if "broker" in request.GET and request.actor.may(Action.SUPERUSER):
        back = f"{reverse('console:brokers')}?{urlencode({'broker': request.GET['broker']})}"
    try:
        bundle = parse_bundle(boundaries, f"{tenant}/{namespace}", text)
    except PreconditionFailed:
        why = gettext("Namespace {namespace} has no bundle {bundle}: it may have been split meanwhile. These are its bundles now.")
        raise Conflict(why.format(namespace=namespace, bundle=text[:40])) from None
    return Place(tenant, namespace, boundaries, bundle, back)


def _refused(request: ConsoleRequest, tenant: str, namespace: str, error: MagnetarError) -> HttpResponse:
    """To the bundles that there are now."""
    return refused(request, error, reverse("console:bundles", args=[tenant, namespace]))


def _rates(place: Place) -> tuple[dict[str, float], bool]:
    """Of all topics of the bundle, and whether they are known: what is not loaded has none. Raises `NotReady`."""
    names = broker.ask(lambda rpc: rpc.call(TOPICS_LIST, TopicsList(namespace=place.name))).topics
    live, _ = broker.ask_or_why(lambda rpc: rpc.call(NAMESPACES_LIVE, LiveAsked(namespace=place.name)).whole())
    inside = dict.fromkeys(by_bundle(place.boundaries, names)[place.bundle], 0.0)
    if live is None:
        return inside, False
    return inside | {row.topic: row.rate_in + row.rate_out for row in live.topics if row.topic in inside}, True


def _takers(found: Placement, namespace: str, owner_id: str) -> list[str]:
    """Who else may have a bundle of the namespace."""
    allowed = IsolationRules(isolation_policies()).among(namespace, found.running)
    takers = found.takers()
    return [each for each in allowed if each in takers and each != owner_id]


def _moves(found: Placement, owner_id: str) -> bool:
    loads, _ = found.told.get(owner_id, (None, ""))
    return loads is not None and loads.movable
