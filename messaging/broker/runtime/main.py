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
from pathlib import Path

from messaging import descriptors, logs
from messaging.atomic_files import make_directory
from messaging.background import BackgroundLoop, BackgroundLoops
from messaging.bookkeeper_url import is_bookkeeper
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.http import start_http
from messaging.broker.http.context import Edge
from messaging.broker.runtime.access import Access
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.database_watch import LOOK_S, DatabaseWatch
from messaging.broker.runtime.database_watch import LOOP as DATABASE_LOOP
from messaging.broker.runtime.ledger_stores import AnyLedgers, ledger_store_of
from messaging.broker.runtime.listeners import BACKLOG, open_listeners
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.metering.setup import MeteredBundles, meter_stored_topics, meter_usage
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
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.gone_brokers import LOOK_S as GONE_LOOK_S
from messaging.broker.runtime.ownership.gone_brokers import GoneBrokers
from messaging.broker.runtime.ownership.instance import Instance
from messaging.broker.runtime.ownership.joining import join, join_shared, open_shared_session
from messaging.broker.runtime.ownership.owners import Owners
from messaging.broker.runtime.ownership.same_platform import note_platform, require_same_platform
from messaging.broker.runtime.process import tune_gc, tune_malloc, tune_thread_switching
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.runtime.wire.commands import Commands
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.tls_listener import TlsListener
from messaging.clock import ExpiryClock, boottime_ms, wall_ms
from messaging.internal_tls import internal_server_context
from messaging.settings import ConfigError, Settings
from messaging.storage.disk_reserve import NO_SPACE, DiskReserve, of_broker
from messaging.storage.ledger_store import WHOLE, Fence, Fenced, StoreError, Unreachable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.write.segment_files import NO_DESCRIPTOR
from messaging.storage.managed import generations
from messaging.storage.managed.cursor_log import CursorLog, checkpoint_bytes
from messaging.storage.managed.ledger import Storage
from messaging.storage.managed.owned_range import OwnedRange, take_over
from messaging.storage.managed.retention import LedgerLimits
from messaging.storage.meta_store import tenant_of
from messaging.storage.next_commit import NextCommit
from messaging.storage.ownership import OwnershipStore, SessionLost, scope_of_broker
from messaging.storage.sql.meta_store import SqlMetaStore
from messaging.storage.sqlite.meta_store import SqliteMetaStore
from messaging.tls import server_context

log = logs.get_logger("broker")

STOP_S = 8.0
ADOPT_S, METER_BUNDLES_S = 5.0, 2.0
EXIT_LOST = 75  # a new start helps (EX_TEMPFAIL)


class StorageUnreachable(Exception):
    """What `metadata_url` or `ledger_url` names does not answer, or not for this session any more, which may pass by itself."""


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
    if isinstance(service.owners, FleetMember):
        ends.append(asyncio.create_task(service.owners.lost.wait()))
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for each in ends:
        each.cancel()
    return not stopping.is_set()


async def start(settings: Settings, stack: AsyncExitStack, background: BackgroundLoops | None = None) -> Broker:
    """A broker that takes traffic; `stack` closes what it opened, in reverse."""
    folder = settings.broker_path
    background = background or BackgroundLoops()
    try:
        make_directory(folder)
        reserve = _reserve(settings)
        _withdraw(settings)  # of a broker that was killed: nobody is to be sent there
        listeners = open_listeners(settings)
        stack.callback(listeners.close)
        context = server_context(settings, identifies_clients=True)
        store = ledger_store_of(settings, background)
        await store.start()
        stack.push_async_callback(store.stop)
        meta = _metadata(settings, background.register("metadata_store"), reserve)
        await meta.start()
        stack.push_async_callback(meta.stop)
        shared = settings.shared_storage
        session, scope = 0, _scope(settings)
        certain = False
        if shared:
            instance = Instance(folder)
            stack.callback(instance.close)
            await require_same_platform(settings, meta)
            await generations.match_shared(store, meta)
            session = await open_shared_session(settings, meta, instance)
        else:
            certain = await generations.match(store, meta, scope)
        newest_ledger_id = max(await store.ledger_ids(scope), default=0)
        if store.generation != generations.ACCEPTED:
            _require_same_age(await meta.first_free_ledger_id(), newest_ledger_id)
        owned = await take_over(store, meta, scope, after_ledger_id=newest_ledger_id)
        if shared:
            await note_platform(settings, meta, owned.fence)
    except PermissionError as error:
        raise ConfigError(
            f"data_dir {settings.data_dir} is not writable ({error.strerror}): change its owner, or choose another"
        ) from None
    except OSError as error:
        if error.errno in NO_SPACE:
            raise ConfigError(f"the disk under {settings.data_dir} is full: free some space, or choose another data_dir") from error
        if error.errno in NO_DESCRIPTOR:
            raise ConfigError(f"no file can be opened ({error.strerror}): raise the limit of open files (ulimit -n)") from error
        raise
    except generations.GenerationConflict as error:
        metadata = "the metadata of metadata_url" if settings.metadata_url else str(_metadata_file(settings))
        if is_bookkeeper(settings.ledger_url):
            raise ConfigError(
                f"{metadata} does not belong to the ledgers of ledger_url: {error}. Best restore the metadata of the same age. To "
                f"begin without any message, name another store (?store=NAME in ledger_url) and move {metadata} away"
            ) from error
        if settings.ledger_url:
            raise ConfigError(
                f"{metadata} does not belong to the ledgers of ledger_url: {error}. Best restore both from one backup. To begin "
                f"without any message, drop the schema magnetar_ledgers there and move {metadata} away. To go on with both as they "
                "are, and lose what only one of them knows, run there: update magnetar_ledgers.store set generation = 'accepted'"
            ) from error
        log_folder = folder / "log"
        to_move = str(log_folder) if settings.brokers == 1 else f"the logs of all brokers in {settings.data_path}"
        accepting = _for_broker(settings, "`magnetar log repair --accept-metadata`")
        raise ConfigError(
            f"{metadata} does not belong to this log: {error}; that is {log_folder}. Best restore both from one backup. To begin "
            f"without any message, move {to_move} and {metadata} away. To go on with both as they are, and lose what only one of "
            f"them knows, run {accepting}"
        ) from error
    except StoreError as error:
        failure = StorageUnreachable if isinstance(error, Unreachable) else ConfigError
        raise failure(_for_broker(settings, f"the broker cannot open its storage: {error}")) from error
    access = Access(settings, wall_ms, background, reserve)
    access.load()
    owner_map = OwnerMap()
    storage = Storage(
        store,
        meta,
        owned,
        wall_ms,
        ledger_limits(settings),
        expiry_clock=ExpiryClock(),
        background=background,
        reserve=reserve,
        next_commit=store.next_commit if isinstance(store, LocalLedgerStore) else NextCommit(),
        bundle_fence=partial(_bundle_fence, owner_map, owned.fence, settings.broker_id) if shared else None,
    )
    if isinstance(store, LocalLedgerStore):
        storage.damage["segment"] += len(store.damage)
    if not shared:
        certain = await _begin_generation(store, meta, owned) and certain
        stack.push_async_callback(_end_generation, store, meta, owned)
    cursors = CursorLog(storage, checkpoint_bytes=checkpoint_bytes(settings.reserved_bytes))
    try:
        await cursors.start()
    except StoreError as error:
        raise ConfigError(f"the broker cannot read its cursors: {error}") from error
    stack.push_async_callback(cursors.stop)
    addresses = listeners.addresses(settings)
    boundaries_of = access.view.boundaries_of
    owners: Owners
    try:
        if shared:
            owners = await join_shared(storage, meta, cursors, session, owner_map, boundaries_of)
        else:
            owners = await join(settings, meta, owned, boundaries_of, asdict(addresses))
    except StoreError as error:
        passes = isinstance(error, Unreachable | Fenced | SessionLost)  # the next start has a session of its own
        failure = StorageUnreachable if passes else ConfigError
        raise failure(f"the broker cannot read which topics are its own: {error}") from error
    service = Broker(settings, storage, cursors, access, owned.fence.epoch, owners)
    store.on_failed = service.store_failed
    meter_usage(service, settings.data_path / "usage" / "raw")
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
    loop = asyncio.get_running_loop()
    for plain in listeners.plain:
        listener = await loop.create_server(lambda: Connection(service, commands, tls=False), sock=plain, backlog=BACKLOG)
        stack.callback(listener.close)
    for secure in listeners.secure:
        assert context is not None
        shaking = TlsListener(
            service.peers, secure, context, lambda before: Connection(service, commands, tls=True, arrived_as=before)
        )
        stack.callback(shaking.close)
    brokers_only = internal_server_context(settings, "broker")
    if listeners.internal is not None and brokers_only is not None:
        of_brokers = TlsListener(
            service.peers,
            listeners.internal,
            brokers_only,
            lambda before: Connection(service, commands, tls=True, arrived_as=before, of_broker=True),
        )
        stack.callback(of_brokers.close)
    service.why_not_ready = ""
    service.start_background_loops()
    _watch_databases(service, store)
    if isinstance(owners, FleetMember):
        _meter_bundles(service, owners)
        if shared:
            await owners.serve(asdict(addresses) | instance.addresses)
            _balance(service, owners, meta.ownership, admin)
        else:
            owners.keep(background)
        stack.push_async_callback(owners.stop)
    finishing = background.until_done("finish_partitioned_topics", service.topics.partitioned.finish_interrupted)
    stack.callback(finishing.cancel)
    metering = background.until_done("meter_stored_topics", partial(meter_stored_topics, service))
    stack.callback(metering.cancel)
    looking = background.until_done("read_stored_problems", service.stored_problems.read)
    stack.callback(looking.cancel)
    background.spawn(collect_after_start(storage, certain=certain), LOOP)
    background.every(COLLECT_LEFT_S, LEFT_LOOP, partial(collect_of_this_run, storage))
    return service


def _meter_bundles(service: Broker, member: FleetMember) -> None:
    metered = MeteredBundles(service)

    async def follow() -> None:
        rows = member.owners.owned_by(member.broker_id)
        await metered.follow({row.bundle for row in rows if row.session == member.session})

    service.background.every(METER_BUNDLES_S, "meter_bundles", follow)


def _balance(service: Broker, member: FleetMember, store: OwnershipStore, admin: AdminHandlers) -> None:
    """What brokers that store in one place do for each other."""
    moves = service.bundle_moves = BundleMoves(member, store, service.topics, service.cursors)
    balancer = Balancer(member, lambda method, request: admin.methods[method.name](request), boottime_ms)
    background = service.background
    background.every(GONE_LOOK_S, "look_for_gone_brokers", GoneBrokers(member).look)
    background.every(FOLLOW_S, "follow_bundles", lambda: moves.follow_boundaries(service.access.view.boundaries_of))
    background.every(FOLLOW_S, "take_back_bundles", moves.take_back)
    background.every(BALANCE_S, "balance_bundles", balancer.look)
    background.every(ADOPT_S, "adopt_bundles", member.adopt)


def _scope(settings: Settings) -> str:
    """The range that this broker owns as a whole."""
    if settings.shared_storage:
        return scope_of_broker(settings.broker_id)
    return WHOLE if settings.broker_number == 1 else scope_of_broker(str(settings.broker_number))


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


def _metadata(settings: Settings, health: BackgroundLoop, reserve: DiskReserve) -> SqlMetaStore:
    if not settings.metadata_url:
        return SqliteMetaStore(_metadata_file(settings), health, reserve)
    from messaging.storage.postgresql.meta_store import PostgresqlMetaStore  # its library is loaded only where it is used

    return PostgresqlMetaStore(settings.metadata_url, health)


def _metadata_file(settings: Settings) -> Path:
    """Of all brokers of this machine."""
    return settings.data_path / "broker" / "meta.sqlite3"


def _for_broker(settings: Settings, text: str) -> str:
    """`text` with the commands that are about the log of this broker."""
    number = settings.broker_number
    return text if number == 1 else text.replace("magnetar log repair", f"magnetar log repair --broker {number}")


def _reserve(settings: Settings) -> DiskReserve:
    reserve = of_broker(settings)
    if not reserve.fill():
        log.warning(
            "reserve.missing", why=reserve.why_not_whole(), to_do="free some space: they are taken as soon as there is some"
        )
    return reserve


def _require_same_age(next_ledger_id: int, newest_ledger_id: int) -> None:
    """Metadata that is older than the log must not come to it: what it does not know would be deleted as left behind. Raises
    `GenerationConflict`."""
    if newest_ledger_id >= next_ledger_id:
        raise generations.GenerationConflict(
            f"its next ledger id is {next_ledger_id}, but the log already has ledger {newest_ledger_id}; it was lost or is older"
        )


async def _begin_generation(store: generations.NamedLog, meta: SqlMetaStore, owned: OwnedRange) -> bool:
    """Whether it began. A disk that is full does not keep a broker from starting."""
    try:
        await generations.renew(store, meta, owned.fence)
    except StoreError as error:
        log.warning("generation.not_renewed", error=str(error))
        return False
    return True


async def _end_generation(store: generations.NamedLog, meta: SqlMetaStore, owned: OwnedRange) -> None:
    try:
        await generations.renew(store, meta, owned.fence, stopped=True)
    except StoreError as error:  # as after a crash
        log.warning("generation.not_renewed", error=str(error))


def ledger_limits(settings: Settings) -> LedgerLimits:
    return LedgerLimits(
        entries_max=settings.ledger_entries_max,
        bytes_max=settings.ledger_bytes_max,
        age_max_ms=settings.ledger_age_max_s * 1000,
        consumed_age_max_ms=settings.ledger_consumed_age_max_s * 1000,
    )


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
