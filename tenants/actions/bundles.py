"""Bundles of a namespace: which there are, and splitting them."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.adminrpc.methods import NAMESPACES_LIVE, TOPICS_LIST
from messaging.adminrpc.topics import LiveAsked, TopicsList
from messaging.permissions.model import Action, Resource
from messaging.protocol.bundles import (
    BUNDLES_DEFAULT,
    Boundaries,
    Bundle,
    algorithm_of,
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
    live = broker.rpc().call(NAMESPACES_LIVE, LiveAsked(namespace=namespace)).topics
    return dict.fromkeys(_topics(namespace), 0.0) | {row.topic: row.rate_in + row.rate_out for row in live}
