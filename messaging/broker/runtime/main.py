"""The broker process: opens storage, listeners and feed, writes run/broker.json when it takes traffic, stops on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial

from messaging import descriptors, logs
from messaging.atomic_files import make_directory
from messaging.background import BackgroundLoops
from messaging.broker.core.control.view import ControlView
from messaging.broker.core.ownership.fleet_rules import FleetRules
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.http import start_http
from messaging.broker.http.context import Edge
from messaging.broker.runtime import waiting_audit
from messaging.broker.runtime.access import Access
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.database_watch import LOOK_S, DatabaseWatch
from messaging.broker.runtime.database_watch import LOOP as DATABASE_LOOP
from messaging.broker.runtime.ledger_stores import AnyLedgers
from messaging.broker.runtime.listeners import open_listeners
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.metering.setup import MeteredBundles, meter_stored_topics, meter_usage
from messaging.broker.runtime.metering.waiting_history import keep, take_up
from messaging.broker.runtime.orphans import (
    COLLECT_LEFT_S,
    LEFT_LOOP,
    LOOP,
    collect_after_start,
    collect_of_this_run,
)
from messaging.broker.runtime.ownership.balancer import LOOK_S as BALANCE_S
from messaging.broker.runtime.ownership.balancer import Balancer
from messaging.broker.runtime.ownership.bundle_moves import FOLLOW_S, BundleMoves
from messaging.broker.runtime.ownership.cut_off import LOOK_S as CUT_OFF_LOOK_S
from messaging.broker.runtime.ownership.cut_off import CutOff
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.gone_brokers import LOOK_S as GONE_LOOK_S
from messaging.broker.runtime.ownership.gone_brokers import GoneBrokers, RefusingBrokers
from messaging.broker.runtime.ownership.gone_namespaces import LOOK_S as GONE_NAMESPACES_S
from messaging.broker.runtime.ownership.gone_namespaces import GoneNamespaces
from messaging.broker.runtime.ownership.joining import join, join_shared
from messaging.broker.runtime.ownership.owners import Owners
from messaging.broker.runtime.ownership.policy_moves import LOOK_S as POLICY_LOOK_S
from messaging.broker.runtime.ownership.policy_moves import PolicyMoves
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.process import tune_gc, tune_malloc, tune_thread_switching
from messaging.broker.runtime.protocol_listeners import listen
from messaging.broker.runtime.storage_opening import (
    OpenedStorage,
    StorageUnreachable,
    explained,
    filled_reserve,
    open_cursors,
    open_storage,
)
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.runtime.wire.commands import Commands
from messaging.broker.runtime.wire.connection import Connection
from messaging.clock import boottime_ms, wall_ms
from messaging.settings import ConfigError, Settings
from messaging.storage.ledger_store import Fence, Fenced, StoreError, Unreachable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger import Storage
from messaging.storage.meta_store import tenant_of
from messaging.storage.ownership import OwnershipStore, SessionLost
from messaging.tls import server_context

log = logs.get_logger("broker")

STOP_S = 8.0
ADOPT_S, METER_BUNDLES_S = 5.0, 2.0
EXIT_LOST = 75  # a new start helps (EX_TEMPFAIL)


def main(settings: Settings) -> int:
    """Runs until SIGTERM or SIGINT. Returns 0 after a clean stop, `EXIT_LOST` where other brokers took over what this one had.
    Raises `ConfigError` for what a person has to mend, and `StorageUnreachable`."""
    logs.setup("broker", settings)
    settings = _with_descriptors(settings)
    try:
        import uvloop

        return uvloop.run(run(settings))
    except ImportError:
        return asyncio.run(run(settings))


def _with_descriptors(settings: Settings) -> Settings:
    """Raises the limit of open files to what the settings need; where the system does not permit that, fewer connections."""
    limit = descriptors.raise_limit(descriptors.of_broker(settings))
    fitting = descriptors.fitting(settings, limit)
    if fitting is not settings:
        log.warning(
            "broker.few_descriptors",
            limit=limit,
            connections_max=fitting.connections_max,
            to_do=f"raise the limit of open files to {descriptors.of_broker(settings)} (ulimit -n, LimitNOFILE), or lower "
            f"connections_max = {settings.connections_max}",
        )
    return fitting


async def run(settings: Settings, stop: asyncio.Event | None = None) -> int:
    """The broker in the running loop, until `stop` is set (or a signal comes)."""
    stopping = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    if stop is None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        service = await start(settings, stack)
        tune_gc()
        tune_thread_switching()
        tune_malloc()
        announce(settings, service)
        stack.callback(_withdraw, settings)
        log.info("broker.ready", broker_url=service.addresses.broker_url, boot_epoch=service.boot_epoch)
        lost = await _until_stopped(service, stopping)
        log.info("broker.stopping", lost=lost)
        try:
            async with asyncio.timeout(STOP_S):
                await service.stop()
        except TimeoutError:
            log.error("broker.stop_slow", seconds=STOP_S)
    return EXIT_LOST if lost else 0


async def _until_stopped(service: Broker, stopping: asyncio.Event) -> bool:
    """Whether it is because another broker took this one's bundles over."""
    ends = [asyncio.create_task(stopping.wait())]
    if isinstance(service.owners, SharedMember):
        ends.append(asyncio.create_task(service.owners.lost.wait()))
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for each in ends:
        each.cancel()
    return not stopping.is_set()


async def start(settings: Settings, stack: AsyncExitStack, background: BackgroundLoops | None = None) -> Broker:
    """A broker that takes traffic; `stack` closes what it opened, in reverse."""
    background = background or BackgroundLoops()
    with explained(settings):
        make_directory(settings.broker_path)
        reserve = filled_reserve(settings)
        _withdraw(settings)  # of a broker that was killed: nobody is to be sent there
        listeners = open_listeners(settings)
        stack.callback(listeners.close)
        context = server_context(settings, identifies_clients=True)
        opened = await open_storage(settings, stack, background, reserve)
    access = Access(settings, wall_ms, background, reserve)
    access.load()
    owner_map = OwnerMap()
    storage = opened.storage(partial(_bundle_fence, owner_map, opened.owned.fence, settings.broker_id))
    # Others take over only once the cursors are closed; who finds nobody at this port takes the broker for gone.
    leaving = await stack.enter_async_context(AsyncExitStack())
    leaving.callback(listeners.rpc.dup().close)
    cursors = await open_cursors(storage, settings, stack)
    addresses = listeners.addresses(settings)
    owners = await _join(opened, storage, cursors, owner_map, access.view, asdict(addresses))
    service = Broker(settings, storage, cursors, access, opened.owned.fence.epoch, owners)
    opened.ledgers.on_failed = service.store_failed
    meter_usage(service, settings.data_path / "usage" / "raw")
    history = service.metering.history.buffer
    await asyncio.to_thread(take_up, history, settings.broker_path)
    service.after_stop.append(lambda: asyncio.to_thread(keep, history.close(), settings.broker_path))
    await asyncio.to_thread(waiting_audit.take_up, service.audit, settings.broker_path)
    service.after_stop.append(lambda: asyncio.to_thread(waiting_audit.keep, service.audit.close(), settings.broker_path))
    service.addresses = addresses
    commands = Commands(service)
    service.before_stop.append(commands.stop)
    admin = AdminHandlers(service)
    edge = Edge(
        service,
        LocalSessions(service),
        partial(broker_samples, service),
        admin.methods,
        lambda tls: Connection(service, commands, tls=tls),
        admin.own,
    )
    http = await start_http(edge, settings, rpc_sock=listeners.rpc, ws_sock=listeners.web_socket, tls_context=context)
    stack.push_async_callback(http.stop)
    await listen(service, commands, listeners, context, stack)
    service.why_not_ready = ""
    service.start_background_loops()
    _watch_databases(service, opened.ledgers)
    await _take_part(service, opened, admin, leaving)
    for name, act in (
        ("finish_partitioned_topics", service.topics.partitioned.finish_interrupted),
        ("meter_stored_topics", partial(meter_stored_topics, service)),
        ("read_stored_problems", service.stored_problems.read),
    ):
        stack.callback(background.until_done(name, act).cancel)
    background.spawn(collect_after_start(storage, certain=opened.certain), LOOP)
    background.every(COLLECT_LEFT_S, LEFT_LOOP, partial(collect_of_this_run, storage))
    return service


async def _join(
    opened: OpenedStorage,
    storage: Storage,
    cursors: CursorLog,
    owner_map: OwnerMap,
    view: ControlView,
    addresses: dict[str, str],
) -> Owners:
    """Raises `ConfigError`, `StorageUnreachable`."""
    settings, meta = opened.settings, opened.meta
    rules = FleetRules(view.placement, owner_map)
    try:
        if settings.shared_storage:
            return await join_shared(
                storage,
                meta,
                cursors,
                opened.session,
                owner_map,
                view.boundaries_of,
                rules,
                knows_tenants=lambda: bool(view.version),
            )
        return await join(settings, meta, opened.owned, owner_map, view.boundaries_of, addresses, rules)
    except StoreError as error:
        passes = isinstance(error, Unreachable | Fenced | SessionLost)  # the next start has a session of its own
        failure = StorageUnreachable if passes else ConfigError
        raise failure(f"the broker cannot read which topics are its own: {error}") from error


async def _take_part(service: Broker, opened: OpenedStorage, admin: AdminHandlers, leaving: AsyncExitStack) -> None:
    """In a fleet: others send clients here from now on. `leaving` tells them when this broker is gone."""
    member = service.owners
    if not isinstance(member, FleetMember):
        return
    _meter_bundles(service, member)
    gone = GoneNamespaces(member, opened.meta.ownership, opened.meta, service.access.may_exist)
    service.background.every(GONE_NAMESPACES_S, "remove_gone_namespaces", gone.look)
    if isinstance(member, SharedMember):
        await member.serve(asdict(service.addresses) | opened.addresses)
        _take_part_once_told(service, member)
        _balance(service, member, opened.meta.ownership, admin)
    else:
        member.keep(service.background)
        service.background.every(GONE_LOOK_S, "look_for_gone_brokers", RefusingBrokers(member).look)
    leaving.push_async_callback(member.stop)


def _take_part_once_told(service: Broker, member: SharedMember) -> None:
    """Of the tenants; at the latest with the next look at the owners."""

    def told(changed: object) -> None:
        if member.untold:
            service.background.spawn(member.take_part(), "follow_owners")

    service.access.feed.on_change.append(told)


def _meter_bundles(service: Broker, member: FleetMember) -> None:
    metered = MeteredBundles(service)

    seen = -1

    async def follow() -> None:
        nonlocal seen
        version = member.owners.version
        if version != seen or metered.waits:
            rows = member.owners.owned_by(member.broker_id)
            await metered.follow([row for row in rows if row.session == member.session])
            seen = version

    service.background.every(METER_BUNDLES_S, "meter_bundles", follow)


def _balance(service: Broker, member: SharedMember, store: OwnershipStore, admin: AdminHandlers) -> None:
    """What brokers that store in one place do for each other."""
    moves = service.bundle_moves = BundleMoves(member, store, service.topics, service.cursors)
    balancer = Balancer(member, lambda method, request: admin.methods[method.name](request), boottime_ms)
    policy_moves = PolicyMoves(member, moves, service.access.view.placement)
    service.access.feed.on_change.append(policy_moves.follow)
    background = service.background
    background.every(POLICY_LOOK_S, "follow_isolation", policy_moves.look)
    background.every(GONE_LOOK_S, "look_for_gone_brokers", GoneBrokers(member).look)
    if service.other_brokers is not None:
        cut_off = CutOff(member, service.other_brokers, service.topics)
        background.every(CUT_OFF_LOOK_S, "let_clients_go", cut_off.look)
    background.every(FOLLOW_S, "follow_bundles", lambda: moves.follow_boundaries(service.access.view.boundaries_of))
    background.every(FOLLOW_S, "take_back_bundles", moves.take_back)
    background.every(BALANCE_S, "balance_bundles", balancer.look)
    background.every(ADOPT_S, "adopt_bundles", member.adopt)


def _bundle_fence(owners: OwnerMap, own: Fence, broker_id: str, topic: str) -> Fence:
    if tenant_of(topic) == OWN_TENANT:
        return own
    fence = owners.fence_of(topic, broker_id)
    if fence is None:
        raise Fenced(f"the bundle of {topic} belongs to another broker")
    return fence


def _watch_databases(service: Broker, store: AnyLedgers) -> None:
    asks: dict[str, Callable[[], Awaitable[object]]] = {}
    if service.settings.metadata_url:
        asks["the PostgreSQL of metadata_url"] = service.storage.meta.first_free_ledger_id
    if not isinstance(store, LocalLedgerStore):
        asks[store.what] = store.ask
    if asks:
        service.databases = DatabaseWatch(asks)
        service.background.every(LOOK_S, DATABASE_LOOP, service.databases.look)


def announce(settings: Settings, service: Broker) -> None:
    """run/broker.json: how to reach this broker, for web, workers and the supervisor."""
    here = service.addresses
    content = {
        "broker_url": here.service_url,
        "broker_url_tls": here.service_url_tls,
        "own_url": here.broker_url,
        "own_url_tls": here.broker_url_tls,
        "ws_url": here.ws_url,
        "rpc_url": here.rpc_url,
        "pid": os.getpid(),
        "boot_epoch": service.boot_epoch,
    }
    path = settings.broker_run_file
    path.parent.mkdir(parents=True, exist_ok=True)
    service.storage.reserve.write_file(path, json.dumps(content).encode())


def _withdraw(settings: Settings) -> None:
    settings.broker_run_file.unlink(missing_ok=True)
