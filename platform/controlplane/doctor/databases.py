"""Checks of the PostgreSQL servers that the broker stores in."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.doctor.checks import Finding
from messaging.settings import Settings

_CONNECT_S = 3


def databases(settings: Settings) -> Iterator[Finding]:
    for setting, url in (("metadata_url", settings.metadata_url), ("ledger_url", settings.ledger_url)):
        if url:
            yield _finding(setting, url)


def _finding(setting: str, url: str) -> Finding:
    import psycopg  # loaded only where it is used

    from messaging.storage.postgresql.connection import SCHEMA, words_of
    from messaging.storage.postgresql.ledgers.tables import SCHEMA as LEDGERS

    what = f"PostgreSQL of {setting}"
    schema = SCHEMA if setting == "metadata_url" else LEDGERS
    sql = """select current_setting('server_version'), current_setting('fsync'), current_setting('transaction_read_only'),
        current_setting('synchronous_standby_names'), (select pg_size_pretty(coalesce(sum(pg_total_relation_size(c.oid)), 0))
        from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = %s and relkind = 'r')"""
    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_S) as connection:
            connection.execute("set statement_timeout = '3s'")
            row = connection.execute(sql, (schema,)).fetchone()
    except psycopg.Error as error:
        return Finding(what, "fail", f"cannot be reached: {words_of(error)}", "start it, or correct its address")
    assert row is not None
    version, fsync, read_only, standbys, size = row
    if read_only == "on":
        return Finding(what, "fail", f"{version}, read-only, as a standby is", "name the primary")
    if fsync == "off":
        return Finding(what, "fail", f"{version} with fsync = off loses what it confirmed when it crashes", "set fsync = on there")
    waits = f"commits wait for {standbys}" if standbys else "no synchronous standby"
    return Finding(what, "ok", f"{version}, {size} in the schema {schema}, {waits}")
