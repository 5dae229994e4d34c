"""Checks of all brokers that share the metadata, also those of other machines, asked of one that runs here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from controlplane.backup.brokers import running_brokers
from controlplane.doctor.checks import Finding
from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import BROKERS_LIST, STATUS
from messaging.errors import MagnetarError
from messaging.identity import service_token
from messaging.internal_tls import internal_client_tls
from messaging.settings import ConfigError, Settings
from messaging.times import time_text

TIMEOUT_S = 5.0


class Member(NamedTuple):
    """`problem`: why a live one is not well, or others cannot take over from one that is gone; else empty. `version`: empty where
    that is not known. `degraded_ledgers`: that it writes with fewer copies than they should have, since `degraded_since_ms`."""

    broker_id: str
    live: bool
    version: str = ""
    problem: str = ""
    degraded_ledgers: int = 0
    degraded_since_ms: int | None = None


def fleet(settings: Settings) -> Iterator[Finding]:
    """Of one broker only what it says of bookies; nothing where none runs here."""
    try:
        urls = running_brokers(settings)
        if not urls:
            return
        tls, token = internal_client_tls(settings, "cli"), partial(service_token, settings, "cli")
        rpc = AdminRpc(lambda: urls[0], token, TIMEOUT_S, tls, name_of="the broker at {}".format)
        seen = rpc.call(BROKERS_LIST, Request()).brokers
    except (ConfigError, MagnetarError) as error:
        yield Finding("Fleet", "warn", f"the brokers could not be listed: {error}", "see the readiness of the broker above")
        return
    live = [_asked(rpc, broker.broker_id) for broker in seen if broker.live]
    if len(seen) > 1:
        yield from _placement(rpc)
        gone = [Member(broker.broker_id, False, problem=broker.problem) for broker in seen if not broker.live]
        yield from findings([*live, *gone])
    yield from copies_findings(live)


def copies_findings(members: Sequence[Member]) -> Iterator[Finding]:
    """Messages on bookies that get fewer copies than they should."""
    for member in members:
        count = member.degraded_ledgers
        if count and member.degraded_since_ms is not None:
            ledgers, they = ("ledger", "it") if count == 1 else ("ledgers", "they")
            says = (
                f"broker {member.broker_id} writes {count} {ledgers} with fewer copies than {they} should have, "
                f"since {time_text(member.degraded_since_ms)}: too few bookies answer it"
            )
            do = "start bookies; docs/operators-guide.md, MagnetarTooFewBookies, says how what was stored meanwhile gets its copies"
            yield Finding("Copies", "warn", says, do)


def _placement(rpc: AdminRpc) -> Iterator[Finding]:
    """A broker that is not responding is told of elsewhere."""
    try:
        yield from placement_findings(rpc.call(STATUS, BrokerAsked()).placement_problems)
    except MagnetarError:
        return


def placement_findings(problems: Sequence[str]) -> Iterator[Finding]:
    """What isolation policies leave unserved."""
    for problem in problems:
        do = "start a broker that may serve them, or change the policy: pulsar-admin ns-isolation-policy set"
        yield Finding("Placement", "fail", problem, do)


def _asked(rpc: AdminRpc, broker_id: str) -> Member:
    try:
        status = rpc.call(STATUS, BrokerAsked(broker_id=broker_id))
    except MagnetarError as error:
        return Member(broker_id, True, problem=str(error))
    why = "" if status.ready else status.why_not_ready
    return Member(broker_id, True, status.version, why, status.degraded_ledgers, status.degraded_since_ms)


def findings(members: Sequence[Member]) -> Iterator[Finding]:
    live = [member for member in members if member.live]
    gone = sorted(member.broker_id for member in members if not member.live)
    for member in live:
        if member.problem:
            do = "look at the log of that broker, and at the way from this machine to it"
            yield Finding("Fleet", "fail", f"broker {member.broker_id}: {member.problem}", do)
    if not any(member.problem for member in live):
        yield Finding("Fleet", "ok", f"{len(live)} brokers are live and ready: {', '.join(member.broker_id for member in live)}")
    for member in members:
        if not member.live and member.problem:
            problem, _, do = member.problem.partition(": repair ")
            yield Finding("Fleet", "fail", f"broker {member.broker_id}: {problem}", f"repair {do}" if do else "")
    if gone:
        do = "start them again; `magnetar brokers forget ID` if one is gone for good"
        yield Finding("Fleet", "warn", f"not seen lately: {', '.join(gone)}", do)
    versions = {
        version: [m.broker_id for m in live if m.version == version] for version in sorted({m.version for m in live if m.version})
    }
    if len(versions) > 1:
        says = "; ".join(f"{version}: {', '.join(ids)}" for version, ids in versions.items())
        yield Finding(
            "Releases", "warn", f"brokers of several releases: {says}", "finish the upgrade, docs/upgrading.md has the order"
        )
