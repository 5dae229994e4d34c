"""Checks of the PostgreSQL servers, and the bookies, that the platform stores in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from controlplane.doctor.checks import Finding
from messaging.bookkeeper_url import BookkeeperUrl, is_bookkeeper
from messaging.clock import OFF_MS_MAX, ahead_ms, off_text, wall_ms
from messaging.settings import Settings
from messaging.storage.bookkeeper.access import bookie_context, zookeeper_options

_CONNECT_S = 3
_CLOCK_OFF_MS_WARN = 2_000


def databases(settings: Settings) -> Iterator[Finding]:
    ahead: dict[str, int] = {}  # ms by which the clock of a server is ahead of ours
    for setting in ("database_url", "metadata_url", "ledger_url"):
        url = getattr(settings, setting)
        if is_bookkeeper(url):
            yield bookies(url)
        elif url:
            yield _postgresql(setting, url, ahead)
    if ahead:
        yield clock_finding(*max(ahead.items(), key=lambda item: abs(item[1])))


def clock_finding(setting: str, ahead: int) -> Finding:
    """`ahead`: ms by which the clock of the server is ahead of this machine's; negative: behind."""
    server = f"the server of {setting}"
    if abs(ahead) <= _CLOCK_OFF_MS_WARN:
        return Finding("Clock", "ok", f"within {_CLOCK_OFF_MS_WARN // 1000} s of that of {server}")
    says, do = off_text(ahead, server), "set it (timedatectl, chrony) on whichever of both is wrong"
    if abs(ahead) > OFF_MS_MAX:
        return Finding("Clock", "fail", f"{says}: a broker does not start at more than {OFF_MS_MAX // 1000} s", do)
    return Finding("Clock", "warn", f"{says}: times of messages, and the ends of keys, are off by that", do)


def _postgresql(setting: str, url: str, ahead: dict[str, int]) -> Finding:
    import psycopg  # loaded only where it is used

    from messaging.storage.postgresql.connection import SCHEMA, words_of
    from messaging.storage.postgresql.ledgers.tables import SCHEMA as LEDGERS

    what = f"PostgreSQL of {setting}"
    schema = {"metadata_url": SCHEMA, "ledger_url": LEDGERS}.get(setting, "public")
    sql = """select current_setting('server_version'), current_setting('fsync'), current_setting('transaction_read_only'),
        pg_is_in_recovery(), current_setting('synchronous_standby_names'), current_database(),
        (select pg_size_pretty(coalesce(sum(pg_total_relation_size(c.oid)), 0))
        from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = %s and relkind = 'r')"""
    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_S) as connection:
            connection.execute("set statement_timeout = '3s'")
            begun_ms = wall_ms()
            clock = connection.execute("select (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchone()
            ended_ms = wall_ms()
            row = connection.execute(sql, (schema,)).fetchone()
    except psycopg.Error as error:
        return Finding(what, "fail", f"cannot be reached: {words_of(error)}", "start it, or correct its address")
    assert row is not None and clock is not None
    ahead[setting] = ahead_ms(begun_ms, clock[0], ended_ms)
    version, fsync, read_only, standby, standbys, name, size = row
    if standby:
        return Finding(what, "fail", f"{version}, a standby, which is read-only", f"name the primary in {setting}, or promote it")
    if read_only == "on":
        do = f"switch default_transaction_read_only off: of the server, the database {name}, the role or {setting}"
        return Finding(what, "fail", f"{version}, read-only: nothing can be stored there", do)
    if fsync == "off":
        return Finding(what, "fail", f"{version} with fsync = off loses what it confirmed when it crashes", "set fsync = on there")
    waits = f"commits wait for {standbys}" if standbys else "no synchronous standby"
    return Finding(what, "ok", f"{version}, {size} in the schema {schema}, {waits}")


def bookies(url: str) -> Finding:
    """Of the BookKeeper that `url` names."""
    what = "BookKeeper of ledger_url"
    try:
        parsed = BookkeeperUrl.parse(url)
        parsed.password()
        bookie_context(parsed)
        options = zookeeper_options(parsed)
    except ValueError as error:
        return Finding(what, "fail", str(error), "correct ledger_url")
    try:
        from messaging.bookkeeper.errors import BookkeeperError, Unavailable  # loaded only where they are used
        from messaging.bookkeeper.metadata.store import BookieAddress
        from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
    except ImportError as error:
        return Finding(what, "fail", f"a library is missing: {error.name}", 'pip install "magnetar[bookkeeper]"')

    async def registered() -> list[BookieAddress]:
        store = ZookeeperMetadataStore(parsed.hosts, root=parsed.root, call_timeout_s=_CONNECT_S, **options)
        await store.start()
        try:
            return await store.bookies()
        finally:
            await store.stop()

    try:
        found = asyncio.run(registered())
    except Unavailable as error:
        return Finding(what, "fail", f"cannot be reached: {error}", "start ZooKeeper, or correct its address")
    except BookkeeperError as error:
        return Finding(what, "fail", str(error), "name the cluster that Apache's bookies use")
    usable = [bookie for bookie in found if bookie.problem is None and not bookie.read_only]
    says = f"{len(usable)} bookies take writes; an entry goes to {parsed.write_quorum} of {parsed.ensemble}"
    others = [f"{bookie.bookie}: {bookie.problem or 'read-only, as with a full disk'}" for bookie in found if bookie not in usable]
    says = "; ".join([says, *others])
    if len(usable) < parsed.ensemble:
        return Finding(what, "fail", says, f"start bookies: no ledger can be made with fewer than {parsed.ensemble}")
    if others or len(usable) == parsed.ensemble:
        return Finding(what, "warn", says, "have a bookie to spare, so that one that fails can be replaced")
    return Finding(what, "ok", says)
