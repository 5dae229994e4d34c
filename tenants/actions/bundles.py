"""Bundles of a namespace: which there are, and splitting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from messaging.adminrpc.base import Request
from messaging.adminrpc.bundles import BundleMoved, NamespaceAsked
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_MOVE, BUNDLES_OWNERS, NAMESPACES_LIVE, TOPICS_LIST, TOPICS_UNLOAD
from messaging.adminrpc.topics import LiveAsked, TopicRef, TopicsList
from messaging.errors import Conflict, NotAllowed
from messaging.permissions.model import Action, Resource
from messaging.protocol.bundles import (
    BUNDLES_DEFAULT,
    Boundaries,
    Bundle,
    algorithm_of,
    bundles_of,
    by_bundle,
    equal_bundles,
    parse_bundle,
    split,
)
from messaging.protocol.names import parse_namespace
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import change
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


def split_bundle(actor: Actor, name: str, text: str, algorithm: str, positions: Sequence[int] = ()) -> list[str]:
    """Cuts the bundle that is called `text` (or `LARGEST`, `HOT`) where the algorithm says; nowhere if there is nothing to divide.
    Returns the topics that lay in it. Blocks. Raises `NotFound`, `PreconditionFailed`, `NotReady`."""
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
    return inside[bundle]


def unload_bundle(name: str, text: str, to_broker_id: str = "") -> None:
    """Closes the bundle's topics, whose clients reconnect. Where brokers store in one place its owner gives the bundle away: to a
    broker, or to whichever placement finds. Blocks. Raises `PreconditionFailed`, `Conflict`, `NotReady`."""
    bundle = parse_bundle(boundaries_of(name), name, text)
    brokers = broker.rpc().call(BROKERS_LIST, Request()).brokers
    if to_broker_id and to_broker_id not in {each.broker_id for each in brokers if each.live}:
        raise Conflict(
            f"Not allowed unload namespace bundle to inactive destination broker: there is no {to_broker_id[:80]!r} among "
            f"{', '.join(each.broker_id for each in brokers if each.live)}"
        )
    if not _give(name, bundle, to_broker_id):
        unload_topics(by_bundle(boundaries_of(name), _topics(name))[bundle])


def unload_namespace(name: str) -> None:
    """The same for all bundles of a namespace."""
    for bundle in bundles_of(boundaries_of(name)):
        if not _give(name, bundle, ""):  # nothing moves here
            unload_topics(_topics(name))
            return


def unload_topics(topics: Iterable[str]) -> None:
    """One by one, each where it is."""
    for topic in topics:
        broker.rpc().call(TOPICS_UNLOAD, TopicRef(topic=topic))


def _give(namespace: str, bundle: Bundle, to_broker_id: str) -> bool:
    """Whether its owner, if it has one, gave it away; False where bundles stay where they are."""
    owners = broker.rpc().call(BUNDLES_OWNERS, NamespaceAsked(namespace=namespace)).bundles
    owner_id = next((each.broker_id for each in owners if each.bundle == str(bundle) and each.live), "")
    if not owner_id:
        return not to_broker_id
    asked = BundleMoved(broker_id=owner_id, namespace=namespace, bundle=str(bundle), to_broker_id=to_broker_id)
    try:
        broker.rpc().call(BUNDLES_MOVE, asked)
    except NotAllowed:
        if to_broker_id not in ("", owner_id):
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
