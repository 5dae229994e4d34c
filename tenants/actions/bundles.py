"""Bundles of a namespace: which there are, splitting them and unloading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from messaging.adminrpc.base import Request
from messaging.adminrpc.bundles import BundleMoved, BundleOwner, NamespaceAsked
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_MOVE, BUNDLES_OWNERS, NAMESPACES_LIVE, TOPICS_LIST, TOPICS_UNLOAD
from messaging.adminrpc.topics import LiveAsked, TopicRef, TopicsList
from messaging.errors import Conflict, NotAllowed, NotReady, PreconditionFailed, TopicNotFound
from messaging.permissions.model import Action, Resource
from messaging.protocol.bundles import (
    BUNDLES_DEFAULT,
    Boundaries,
    Bundle,
    algorithm_of,
    bundle_of,
    bundles_of,
    by_bundle,
    equal_bundles,
    parse_bundle,
    split,
)
from messaging.protocol.names import parse_namespace
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import change, limit_rate, record
from tenants.actions.namespaces import existing
from tenants.models import Namespace, NamespaceBundles

LARGEST, HOT = "LARGEST", "HOT"  # what Pulsar's tool calls the bundle with the most topics, and that with the most messages
_BY_RATE = "flow_or_qps_equally_divide"


def boundaries_of(namespace: str) -> Boundaries:
    """Of the bundles of a namespace that exists."""
    given = NamespaceBundles.unscoped.filter(namespace=namespace).values_list("boundaries", flat=True).first()
    return tuple(given) if given else equal_bundles(BUNDLES_DEFAULT)


def set_boundaries(namespace: Namespace, boundaries: Boundaries) -> None:
    """Within the transaction of an action, which publishes the namespace after it."""
    NamespaceBundles.unscoped.update_or_create(namespace=namespace, defaults={"boundaries": list(boundaries)})


def topics_of_bundle(namespace: str, text: str) -> tuple[Bundle, list[str]]:
    """The bundle that is called `text`, and the full names of its topics, partitions one by one. Blocks. Raises
    `PreconditionFailed`, `NotReady`."""
    boundaries = boundaries_of(namespace)
    bundle = parse_bundle(boundaries, namespace, text)
    return bundle, by_bundle(boundaries, _topics(namespace))[bundle]


def split_bundle(
    actor: Actor, name: str, text: str, algorithm: str, positions: Sequence[int] = (), *, must_cut: bool = False
) -> list[str]:
    """Cuts the bundle that is called `text` (or `LARGEST`, `HOT`) where the algorithm says; nowhere if there is nothing to divide,
    as in Pulsar, which is refused with `must_cut`. Returns the topics that lay in it. Blocks. Raises `NotFound`,
    `PreconditionFailed`, `NotReady`."""
    tenant, _ = parse_namespace(name)
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant, name))
    existing(name)
    divide = algorithm_of(algorithm)
    rates = _rates(name) if text == HOT or algorithm == _BY_RATE else dict.fromkeys(_topics(name), 0.0)
    with change(actor) as changing:
        namespace = existing(name)
        before = boundaries_of(name)
        inside = by_bundle(before, rates)
        bundle = _chosen(before, name, text, inside, rates)
        after = split(before, bundle, divide(bundle, {topic: rates[topic] for topic in inside[bundle]}, positions))
        if after != before:
            set_boundaries(namespace, after)
            changing.publish_namespace(namespace)
            made = [str(part) for part in by_bundle(after, ()) if bundle.lower <= part.lower < bundle.upper]
            changing.audit("namespace.split_bundle", tenant, name, {"bundle": str(bundle)}, {"bundles": made})
        elif must_cut:
            raise PreconditionFailed(f"bundle {bundle} stays whole: there is nowhere to cut it like that")
    return inside[bundle]


def parts_of(
    boundaries: Boundaries, bundle: Bundle, rates: Mapping[str, float], algorithm: str, positions: Sequence[int] = ()
) -> dict[Bundle, list[str]]:
    """What a split would make of a bundle, with the topics of each part; the bundle alone where it would not be cut. `rates`:
    of the topics that lie in it, in messages a second. Raises `PreconditionFailed`."""
    after = split(boundaries, bundle, algorithm_of(algorithm)(bundle, rates, positions))
    inside = [boundary for boundary in after if bundle.lower <= boundary <= bundle.upper]
    parts: dict[Bundle, list[str]] = {part: [] for part in bundles_of(tuple(inside))}
    for topic in rates:
        parts[bundle_of(tuple(inside), topic)].append(topic)
    return parts


def unload_bundle(actor: Actor, name: str, text: str, to_broker_id: str = "", *, shown_owner_id: str | None = None) -> None:
    """Closes the bundle's topics, whose clients reconnect. Where brokers store in one place its owner gives the bundle away: to a
    broker, which is for administrators of the platform, or to whichever placement finds. `shown_owner_id`: who had it when somebody
    looked at what this does; refused where another broker has it by now, or it cannot be unloaded. Blocks. Raises `NotAuthorized`,
    `PreconditionFailed`, `Conflict`, `NotReady`."""
    tenant, _ = parse_namespace(name)
    require(actor, Action.OPERATE, Resource(tenant, name))
    if to_broker_id:
        require(actor, Action.SUPERUSER)
    limit_rate(actor)
    boundaries = boundaries_of(name)
    bundle = parse_bundle(boundaries, name, text)
    if to_broker_id:
        _check_running(to_broker_id)
    owner = owner_of(name, bundle)
    if shown_owner_id is not None:
        check_unload(owner, shown_owner_id)
    before, after = {"bundle": str(bundle), "broker": owner.broker_id}, {"to_broker": to_broker_id}
    try:
        if not _give(owner, to_broker_id):
            unload_topics(by_bundle(boundaries, _topics(name))[bundle])  # also where it was split meanwhile
    except NotReady as error:  # it may have begun
        record(actor, "namespace.unload", tenant, name, before, {**after, "not_confirmed": error.message})
        raise
    record(actor, "namespace.unload", tenant, name, before, after)


def _check_running(broker_id: str) -> None:
    live = [each.broker_id for each in broker.rpc().call(BROKERS_LIST, Request()).brokers if each.live]
    if broker_id not in live:
        raise Conflict(
            f"Not allowed unload namespace bundle to inactive destination broker: there is no {broker_id[:80]!r} among "
            f"{', '.join(live)}"
        )


def owner_of(namespace: str, bundle: Bundle) -> BundleOwner:
    """As a broker knows it, up to a second old. Blocks. Raises `NotReady`."""
    owners = broker.rpc().call(BUNDLES_OWNERS, NamespaceAsked(namespace=namespace)).bundles
    nobody = BundleOwner(namespace=namespace, bundle=str(bundle))
    return next((each for each in owners if each.bundle == str(bundle)), nobody)


def check_unload(owner: BundleOwner, shown_owner_id: str) -> None:
    """Raises `Conflict` where the bundle cannot be unloaded, or is not where it was shown."""
    bundle = owner.bundle
    if not owner.broker_id:
        raise Conflict(f"no broker has bundle {bundle}: there is nothing to unload; the next client that needs it has it placed")
    if not owner.live:
        raise Conflict(
            f"broker {owner.broker_id}, which has bundle {bundle}, is not running: nothing is loaded there that could be unloaded"
        )
    if owner.draining:
        raise Conflict(f"bundle {bundle} is moving away from broker {owner.broker_id} already: look again in a moment")
    if owner.broker_id != shown_owner_id:
        raise Conflict(
            f"bundle {bundle} is at broker {owner.broker_id} by now, no longer at {shown_owner_id[:80]}: look again what this does"
        )


def unload_namespace(name: str) -> None:
    """The same for all bundles of a namespace."""
    for bundle in bundles_of(boundaries_of(name)):
        if not _give(owner_of(name, bundle), ""):  # nothing moves here
            unload_topics(_topics(name))
            return


def unload_topics(topics: Iterable[str]) -> None:
    """One by one, each where it is."""
    for topic in topics:
        with suppress(TopicNotFound):  # deleted meanwhile
            broker.rpc().call(TOPICS_UNLOAD, TopicRef(topic=topic))


def _give(owner: BundleOwner, to_broker_id: str) -> bool:
    """Whether the owner, if there is one, gave the bundle away; False where bundles stay where they are."""
    if not owner.live:
        return not to_broker_id
    asked = BundleMoved(broker_id=owner.broker_id, namespace=owner.namespace, bundle=owner.bundle, to_broker_id=to_broker_id)
    try:
        broker.rpc().call(BUNDLES_MOVE, asked)
    except NotAllowed:
        if to_broker_id not in ("", owner.broker_id):
            raise
        return False
    return True


def _chosen(boundaries: Boundaries, namespace: str, text: str, inside: dict[Bundle, list[str]], rates: dict[str, float]) -> Bundle:
    if text == LARGEST:
        return max(inside, key=lambda bundle: len(inside[bundle]))
    if text == HOT:
        return max(inside, key=lambda bundle: sum(rates[topic] for topic in inside[bundle]))
    return parse_bundle(boundaries, namespace, text)


def _topics(namespace: str) -> list[str]:
    return broker.rpc().call(TOPICS_LIST, TopicsList(namespace=namespace)).topics


def _rates(namespace: str) -> dict[str, float]:
    """Messages a second into and out of each topic."""
    live = broker.rpc().call(NAMESPACES_LIVE, LiveAsked(namespace=namespace)).whole().topics
    return dict.fromkeys(_topics(namespace), 0.0) | {row.topic: row.rate_in + row.rate_out for row in live}
