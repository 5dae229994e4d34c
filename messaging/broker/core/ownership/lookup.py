"""What a broker answers to whoever asks where a topic is: here, there, or not now."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules, candidate
from messaging.storage.ownership import BrokerSession, NamespaceBundle, OwnershipRow


class Here(NamedTuple):
    row: OwnershipRow


class There(NamedTuple):
    """`owner`: whether it owns the bundle; else it is to try to acquire it."""

    broker: BrokerSession
    owner: bool


class Acquire(NamedTuple):
    """Nobody alive owns it, and it is this broker's turn."""

    bundle: NamespaceBundle


class NotNow(NamedTuple):
    """`passes`: within seconds, by itself."""

    why: str
    passes: bool = False


Answer: TypeAlias = Here | There | Acquire | NotNow


def answer(
    owners: OwnerMap,
    broker_id: str,
    session: int,
    bundle: NamespaceBundle,
    position: int,
    *,
    sent: bool,
    rules: PlacementRules = EVERYWHERE,
) -> Answer:
    """`bundle`: the one that holds `position`, as this broker knows the namespace. `sent`: another broker sent the client here, so
    it is not sent on only because the two would place the bundle differently; one that gives its bundles away, or does not know the
    tenants yet, sends it on all the same, and so does one that was given another namespace of the same group meanwhile."""
    row = owners.row_at(bundle.namespace, position)
    if row is not None and row.state != "free":
        mine = (row.broker_id, row.session) == (broker_id, session)
        if mine or owners.is_live(row):
            if row.state == "draining":
                return NotNow(f"{row.bundle} is being handed over to another broker", passes=True)
            return Here(row) if mine else There(owners.sessions[row.broker_id], owner=True)
        if not row.pinned and owners.refuses(row):
            return NotNow(f"broker {row.broker_id} is gone, and another one is about to take over {row.bundle}", passes=True)
    # All that it overlaps has to be free, not only where the topic lies: bundles may have been cut meanwhile.
    for other in owners.overlapping(bundle):
        if other.state != "free" and other.broker_id != broker_id and (owners.is_live(other) or other.pinned):
            broker = owners.sessions.get(other.broker_id)
            if broker is not None and owners.runs(broker):  # a later session of it takes its pinned bundles again
                return There(broker, owner=False)
            return NotNow(f"broker {other.broker_id}, which has the log of {other.bundle}, is not running", passes=True)
    own = owners.sessions.get(broker_id)
    stays = sent and not (own is not None and own.declines)
    pinned = next((other for other in owners.overlapping(bundle) if other.pinned and other.broker_id == broker_id), None)
    chosen: str | None = broker_id
    if pinned is not None:  # wherever it should be: nobody else can serve it
        return Acquire(bundle)
    if stays and not rules.permits(bundle.namespace, broker_id):
        return NotNow(f"{bundle} may not be at this broker")
    running = [other.broker_id for other in owners.sessions.values() if other.takes and owners.runs(other)]
    expected = owners.expected(bundle)
    if stays and broker_id in running and expected != broker_id and rules.is_together(bundle.namespace, broker_id, running):
        stays, expected = False, None
    if not stays:
        if expected in running and rules.permits(bundle.namespace, expected):  # by rules that count it there it would go on
            chosen = expected
        else:
            taking = rules.allowed(bundle.namespace, running)
            if running and not taking:
                return NotNow(rules.why_nobody(bundle.namespace))
            chosen = candidate(bundle, taking, owners)
    if chosen is None or chosen == broker_id:
        return Acquire(bundle)
    return There(owners.sessions[chosen], owner=False)
