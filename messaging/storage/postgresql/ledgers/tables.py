"""The tables of ledgers in PostgreSQL, and what is done to them. Every function blocks, and runs in the caller's transaction.

A block is one row, as it was appended: it is read, checked and deleted by itself, and nothing is rewritten to free its space.
`last_entry` is in its key, so that the block which holds an entry is the first one whose last entry is not before it. `after_entry`
is the last entry of the block before, so that a missing row is told from ids that were left out. `end_bytes` counts the ledger's
entries up to the end of the block: the last row tells where a ledger ends and how long it is.

They are in a schema of their own, beside that of the metadata or in another database.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
from crc32c import crc32c

from messaging.storage.ledger_store import (
    Block,
    Buffer,
    Corrupt,
    Fence,
    Fenced,
    LedgerExists,
    LedgerInfo,
    NoSuchLedger,
    Unavailable,
)
from messaging.storage.postgresql.connection import require_writable

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = "magnetar_ledgers"
FORMAT_VERSION = 1
FREED_BLOCKS_MAX = 500  # of one transaction that frees the space of a deleted ledger
FREED_BYTES_MAX = 8 << 20
_GUARD = 0x6D61676F  # the advisory lock of those who make the tables
_TABLES = f"""
create schema if not exists {SCHEMA};
set local search_path to {SCHEMA};
create table if not exists store (version integer not null, epoch bigint not null, generation text not null);
create table if not exists fence (scope text collate "C" primary key, epoch bigint not null);
create table if not exists ledger (
    id bigint primary key, scope text collate "C" not null, sealed boolean not null, deleted boolean not null,
    last_entry bigint not null, length_bytes bigint not null, properties bytea not null);
create index if not exists ledger_scope on ledger (scope, id) where not deleted;
create index if not exists ledger_deleted on ledger (id) where deleted;
create table if not exists block (
    ledger_id bigint not null, first_entry bigint not null, last_entry bigint not null, after_entry bigint not null,
    end_bytes bigint not null, checksum bigint not null, header bytea not null, end_offsets bytea not null, data bytea not null,
    primary key (ledger_id, last_entry));
alter table block alter column header set storage external, alter column end_offsets set storage external,
    alter column data set storage external;
"""
_COPY = "copy block (ledger_id, first_entry, last_entry, after_entry, end_bytes, checksum, header, end_offsets, data) from stdin"
_COPIED = ("int8", "int8", "int8", "int8", "int8", "int8", "bytea", "bytea", "bytea")
_LAST_BLOCK = "left join lateral (select * from block where ledger_id = ledger.id order by last_entry desc limit 1) block on true"
_INFO = f"""
select id, scope, sealed, properties, coalesce(block.last_entry, -1), coalesce(block.end_bytes, 0)
from (select * from ledger where not deleted) ledger {_LAST_BLOCK}"""


class StoreRow(NamedTuple):
    epoch: int
    generation: str


def begin(connection: Connection, setting: str) -> StoreRow:
    """Makes the tables where they are missing, and gives this start its epoch. Raises `Unavailable` for the tables of another
    release, and for a server that cannot be written to."""
    (exists,) = _row(connection, "select to_regclass(%s)", (f"{SCHEMA}.store",))
    require_writable(connection, setting)
    if exists is None:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (_GUARD,))
            connection.execute(_TABLES.encode())
            if connection.execute("select 1 from store").fetchone() is None:
                connection.execute("insert into store values (%s, 0, '')", (FORMAT_VERSION,))
    select_schema(connection)
    (version,) = connection.execute("select version from store").fetchone() or (0,)
    if version != FORMAT_VERSION:
        raise Unavailable(f"the schema {SCHEMA} in PostgreSQL has format {version}; this release reads version {FORMAT_VERSION}")
    highest = "greatest(epoch, (select coalesce(max(epoch), 0) from fence))"
    return StoreRow(*_row(connection, f"update store set epoch = {highest} + 1 returning epoch, generation"))


def select_schema(connection: Connection) -> None:
    """A transaction reads what was committed before each of its statements: after it waited for a fence, the newest one."""
    connection.execute(f"set search_path = {SCHEMA}".encode())
    connection.execute("set default_transaction_isolation = 'read committed'")


def generation(connection: Connection) -> str:
    (name,) = _row(connection, "select generation from store")
    return str(name)


def name_generation(connection: Connection, generation: str) -> None:
    connection.execute("update store set generation = %s", (generation,))


# --- fences


def lock_fences(connection: Connection, scopes: Iterable[str], *, alone: bool = False) -> dict[str, int]:
    """The newest epoch of each scope, which nobody raises before this transaction ends. `alone`: waits besides for whoever locked
    one of them. In one order, so that brokers do not wait for each other in a circle."""
    sql = "select scope, epoch from fence where scope = any(%s) order by scope "
    sql += "for no key update" if alone else "for share"
    return dict(connection.execute(sql.encode(), (sorted(scopes),)).fetchall())


def take_over(connection: Connection, fence: Fence) -> None:
    """Waits for every transaction under an older fence. Raises `Fenced` if a newer one is known."""
    sql = (
        "insert into fence values (%s, %s) on conflict (scope) do update set epoch = excluded.epoch "
        "where fence.epoch <= excluded.epoch returning epoch"
    )
    if connection.execute(sql, fence).fetchone() is None:
        raise Fenced(f"epoch {fence.epoch} does not own {fence.scope}; a newer one does")


# --- ledgers


def create(connection: Connection, ledger_id: int, scope: str, properties: dict[str, str]) -> None:
    sql = "insert into ledger values (%s, %s, false, false, -1, 0, %s) on conflict do nothing"
    if connection.execute(sql, (ledger_id, scope, msgspec.msgpack.encode(properties))).rowcount != 1:
        raise LedgerExists(f"ledger {ledger_id} exists", ledger_id)


def seal(connection: Connection, ledger_id: int) -> LedgerInfo:
    info = ledger(connection, ledger_id)
    if not info.sealed:
        sql = "update ledger set sealed = true, last_entry = %s, length_bytes = %s where id = %s and not deleted"
        connection.execute(sql, (info.last_entry, info.length_bytes, ledger_id))
        info.sealed = True
    return info


def delete(connection: Connection, ledger_id: int) -> None:
    """Its blocks stay until `free` comes to them."""
    connection.execute("update ledger set deleted = true where id = %s and not deleted", (ledger_id,))


def free(connection: Connection) -> bool:
    """Deletes some blocks of a deleted ledger. Whether there was one."""
    row = connection.execute("select id from ledger where deleted order by id limit 1 for update skip locked").fetchone()
    if row is None:
        return False
    sizes = connection.execute(
        "select last_entry, octet_length(data) from block where ledger_id = %s order by last_entry limit %s",
        (*row, FREED_BLOCKS_MAX),
    ).fetchall()
    if not sizes:
        connection.execute("delete from ledger where id = %s", row)
        return True
    up_to, size_bytes = -1, 0
    for last_entry, block_bytes in sizes:
        size_bytes += block_bytes
        if up_to >= 0 and size_bytes > FREED_BYTES_MAX:
            break
        up_to = last_entry
    connection.execute("delete from block where ledger_id = %s and last_entry <= %s", (*row, up_to))
    return True


def ledger(connection: Connection, ledger_id: int) -> LedgerInfo:
    """As far as it is committed. Raises `NoSuchLedger`."""
    row = connection.execute(f"{_INFO} where id = %s".encode(), (ledger_id,)).fetchone()
    if row is None:
        raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
    return _info(row)


def ledgers(connection: Connection) -> list[LedgerInfo]:
    return [_info(row) for row in connection.execute(f"{_INFO} order by id".encode())]


def ledger_ids(connection: Connection, scope: str) -> list[int]:
    return [number for (number,) in connection.execute("select id from ledger where scope = %s and not deleted", (scope,))]


def _info(row: Sequence[Any]) -> LedgerInfo:
    ledger_id, _, sealed, properties, last_entry, length_bytes = row
    return LedgerInfo(ledger_id, last_entry, length_bytes, sealed, msgspec.msgpack.decode(properties, type=dict[str, str]))


# --- blocks


class BlockRow(NamedTuple):
    ledger_id: int
    first_entry: int
    last_entry: int
    after_entry: int
    end_bytes: int
    checksum: int
    header: bytes
    end_offsets: bytes
    data: Buffer


def block_row(ledger_id: int, first: int, after: int, end_bytes: int, header: bytes, data: Buffer, ends: array[int]) -> BlockRow:
    last, end_offsets = first + len(ends) - 1, _little_endian(ends)
    checksum = _checksum(ledger_id, first, last, after, header, end_offsets, data)
    return BlockRow(ledger_id, first, last, after, end_bytes, checksum, header, end_offsets, data)


def append(connection: Connection, rows: Iterable[BlockRow]) -> None:
    with connection.cursor().copy(f"{_COPY} (format binary)".encode()) as copy:
        copy.set_types(_COPIED)
        for row in rows:
            copy.write_row(row)


def has_block(connection: Connection, ledger_id: int, last_entry: int) -> bool:
    sql = "select 1 from block where ledger_id = %s and last_entry = %s"
    return connection.execute(sql, (ledger_id, last_entry)).fetchone() is not None


def block_sizes(connection: Connection, ledger_id: int, first: int, last: int, limit: int) -> list[tuple[int, int, int]]:
    """First entry, last entry and bytes of blocks, from the one that holds `first` on."""
    sql = (
        "select first_entry, last_entry, octet_length(data) from block "
        "where ledger_id = %s and last_entry between %s and %s order by last_entry limit %s"
    )
    return connection.execute(sql, (ledger_id, first, last, limit)).fetchall()


def blocks(connection: Connection, ledger_id: int, first: int, last: int) -> list[Block]:
    """The blocks from the one that holds `first` on whose last entry is not behind `last`, up to where one is missing or damaged.
    Raises `Corrupt` where that is the first one."""
    cursor = connection.cursor(binary=True)
    sql = (
        "select first_entry, last_entry, after_entry, checksum, header, end_offsets, data from block "
        "where ledger_id = %s and last_entry between %s and %s order by last_entry"
    )
    rows = cursor.execute(sql, (ledger_id, first, last)).fetchall()
    intact: list[Block] = []
    expected_after: int | None = None
    for index, (first_entry, last_entry, after, checksum, header, end_offsets, data) in enumerate(rows):
        missing = after >= first if expected_after is None else after != expected_after
        if missing or checksum != _checksum(ledger_id, first_entry, last_entry, after, header, end_offsets, data):
            if not intact:
                following = rows[index + 1][0] if index + 1 < len(rows) else last_entry + 1
                raise _corrupt(ledger_id, first, first_entry if missing else following)
            break
        ends = array("I")
        ends.frombytes(end_offsets)
        if sys.byteorder == "big":
            ends.byteswap()
        intact.append(Block(ledger_id, first_entry, header, data, ends))
        expected_after = last_entry
    if not intact:
        raise _corrupt(ledger_id, first, last + 1)
    return intact


def _corrupt(ledger_id: int, entry_id: int, resume_entry: int) -> Corrupt:
    text = f"ledger {ledger_id}: entry {entry_id} is missing or does not match its checksum; the next to try is {resume_entry}"
    return Corrupt(text, ledger_id, entry_id, resume_entry)


def _checksum(ledger_id: int, first: int, last: int, after: int, header: bytes, end_offsets: bytes, data: Buffer) -> int:
    place = b"".join(number.to_bytes(8, "little", signed=True) for number in (ledger_id, first, last, after, len(header)))
    return int(crc32c(data, crc32c(end_offsets, crc32c(header, crc32c(place)))))


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("I", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _row(connection: Connection, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    row = connection.execute(sql.encode(), parameters).fetchone()
    assert row is not None
    return row
