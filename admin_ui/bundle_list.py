"""Bundles as the console shows them: who has which, and what each does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from admin_ui import broker
from admin_ui.pages import sentence
from admin_ui.row_list import Column
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.adminrpc.base import Request
from messaging.adminrpc.bundles import BundleLoad, BundleLoads, BundleOwner, LoadsAsked, NamespaceAsked
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_LOADS, BUNDLES_OWNERS
from messaging.errors import MagnetarError

Told = tuple[BundleLoads | None, str]
AWAY = gettext_lazy("Away: it has not renewed its session.")


class State(NamedTuple):
    """Of where a bundle is. `look`: of its badge."""

    text: str
    look: str


@dataclass(frozen=True)
class BundleRow:
    """`load` None: what it does is not known. `unloads`: whether it can be unloaded now."""

    namespace: str
    bundle: str
    broker_id: str
    load: BundleLoad | None
    state: State | None = None
    unloads: bool = True

    @property
    def tenant(self) -> str:
        return self.namespace.partition("/")[0]

    @property
    def local(self) -> str:
        return self.namespace.partition("/")[2]

    @property
    def figures(self) -> Mapping[str, float | None]:
        names = ("topics", "messages_in_per_s", "messages_out_per_s", "producers", "consumers", "load")
        return {name: None if self.load is None else getattr(self.load, name) for name in names}


FIGURES = (
    Column("topics", gettext_lazy("Topics loaded"), value=lambda row: row.figures["topics"], down=True, look="number"),
    Column("rate_in", gettext_lazy("In/s"), value=lambda row: row.figures["messages_in_per_s"], down=True, look="number"),
    Column("rate_out", gettext_lazy("Out/s"), value=lambda row: row.figures["messages_out_per_s"], down=True, look="number"),
    Column("producers", gettext_lazy("Producers"), value=lambda row: row.figures["producers"], down=True, look="number"),
    Column("consumers", gettext_lazy("Consumers"), value=lambda row: row.figures["consumers"], down=True, look="number"),
    Column("load", gettext_lazy("Load"), value=lambda row: row.figures["load"], down=True, look="number"),
)


@dataclass(frozen=True)
class Placement:
    """The bundles of a namespace, and what brokers told of them. `running`: brokers that renew their sessions."""

    owners: list[BundleOwner]
    told: Mapping[str, Told]
    running: list[str]

    def row(self, owner: BundleOwner) -> BundleRow:
        load = self._loads.get((owner.broker_id, owner.bundle))
        if load is None and (self.answers(owner.broker_id) or not owner.broker_id):
            load = _quiet(owner)
        return BundleRow(
            owner.namespace, owner.bundle, owner.broker_id, load, self._state(owner), owner.live and not owner.draining
        )

    @cached_property
    def _loads(self) -> dict[tuple[str, str], BundleLoad]:
        told = ((broker_id, loads) for broker_id, (loads, _) in self.told.items() if loads is not None)
        return {(broker_id, each.bundle): each for broker_id, loads in told for each in loads.bundles}

    def answers(self, broker_id: str) -> bool:
        return self.told.get(broker_id, (None, ""))[0] is not None

    def owner(self, bundle: str) -> BundleOwner | None:
        return next((each for each in self.owners if each.bundle == bundle), None)

    def takers(self) -> list[str]:
        """Brokers that said that they take bundles."""
        return [broker_id for broker_id, (loads, _) in self.told.items() if loads is not None and not loads.draining]

    def silent(self) -> list[tuple[str, str]]:
        """Brokers that did not answer, and why."""
        return [(broker_id, sentence(why)) for broker_id, (loads, why) in self.told.items() if loads is None]

    def _state(self, owner: BundleOwner) -> State | None:
        if not owner.broker_id:
            return State(gettext("no broker, until a client needs it"), "")
        if not owner.live:
            return State(gettext("not running"), "bad")
        if owner.draining:
            return State(gettext("moving away"), "warn")
        if not self.answers(owner.broker_id):
            return State(gettext("not responding"), "bad")
        return None


def placement_of(namespace: str) -> Placement:
    """Asks one broker, then all that run, together. Raises its errors."""
    owners = broker.ask(lambda rpc: rpc.call(BUNDLES_OWNERS, NamespaceAsked(namespace=namespace))).bundles
    seen = broker.ask(lambda rpc: rpc.call(BROKERS_LIST, Request())).brokers
    running = [each.broker_id for each in seen if each.live]
    return Placement(owners, loads_of(running, namespace), running)


def placement_or_why(namespace: str) -> tuple[Placement | None, str]:
    try:
        return placement_of(namespace), ""
    except MagnetarError as error:
        return None, broker.why(error)


def loads_of(broker_ids: Collection[str], namespace: str = "") -> dict[str, Told]:
    """What each tells of its bundles, or why it does not."""
    return dict(zip(broker_ids, broker.ask_each_or_why([partial(_loads, each, namespace) for each in broker_ids]), strict=True))


def _loads(broker_id: str, namespace: str, rpc: TypedCalls) -> BundleLoads:
    return rpc.call(BUNDLES_LOADS, LoadsAsked(broker_id=broker_id, namespace=namespace))


def _quiet(owner: BundleOwner) -> BundleLoad:
    """No topic of it is loaded."""
    return BundleLoad(
        namespace=owner.namespace,
        bundle=owner.bundle,
        topics=0,
        messages_in_per_s=0.0,
        messages_out_per_s=0.0,
        bytes_in_per_s=0.0,
        bytes_out_per_s=0.0,
        load=0.0,
    )
