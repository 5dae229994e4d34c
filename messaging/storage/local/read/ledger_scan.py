"""Finds the intact blocks of one ledger in a stretch of a segment, even if some of it is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from messaging.storage.local.format import records

_LEDGER_ID_OFFSET = 8  # in a record: checksum, type, flags, reserved


def own_records(view: memoryview, start: int, end: int, ledger_id: int, seed: int) -> Iterator[records.Record]:
    """The intact blocks of a ledger in an extent. After a damaged record, the rest is searched byte by byte.

    Records of other ledgers are skipped by their lengths, unverified. If a length is wrong, the walk ends where no record begins,
    and the search starts after the last verified record."""
    run = view[:end]
    certain = start
    while start < end:
        record = records.parse(run, start)
        if record is None:
            break
        if record.ledger_id == ledger_id and record.type == records.BLOCK:
            if not records.checksum_matches(run, record, seed):
                break
            certain = record.stop
            yield record
        start = record.stop
    else:
        return
    yield from search(view, certain, end, ledger_id, seed)


def search(view: memoryview, start: int, end: int, ledger_id: int, seed: int) -> Iterator[records.Record]:
    """Searches for intact blocks of a ledger at every byte offset."""
    pattern = records.BODY.pack(0, 0, 0, ledger_id, 0, 0, 0, 0)[_LEDGER_ID_OFFSET - 4 : _LEDGER_ID_OFFSET + 4]
    data = bytes(view[start:end])
    at = data.find(pattern)
    while at >= 0:
        begin = start + at - _LEDGER_ID_OFFSET
        record = records.parse(view[:end], begin) if begin >= start else None
        if record is not None and record.type == records.BLOCK and records.checksum_matches(view, record, seed):
            yield record
            at = data.find(pattern, record.stop - start)
        else:
            at = data.find(pattern, at + 1)
