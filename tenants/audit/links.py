"""The hash of an audit record, and what follows what. Pure: no database, so that an exported log is verified by the same code.

A record's hash is the SHA-256 of all it says, as canonical JSON, with two other hashes in it: that of the record before it in the
whole log, and that of the record before it in the log of its tenant. So the whole log is one chain, and what a tenant may read of
it is one too.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any, Protocol

FORMAT = "magnetar-audit-1"
NOTHING_BEFORE = "0" * 64


class Linked(Protocol):
    """A record: a row of the database, or a line of an export."""

    id: int
    at: datetime
    role: str
    address: str
    key_id: str
    action: str
    tenant: str
    tenant_uid: str
    resource: str
    before: Any
    after: Any
    request_id: str
    previous_hash: str
    tenant_previous_hash: str
    hash: str


def hash_of(record: Linked) -> str:
    said = [
        FORMAT,
        record.id,
        moment(record.at),
        record.role,
        record.address,
        record.key_id,
        record.action,
        record.tenant,
        record.tenant_uid,
        record.resource,
        _numbers_alike(record.before),
        _numbers_alike(record.after),
        record.request_id,
        record.previous_hash,
        record.tenant_previous_hash,
    ]
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def as_stored(value: Any) -> Any:
    """What a JSON column will return of `value`: lists for tuples, texts for names. Raises `ValueError` or `TypeError` for what is
    no JSON."""
    return None if value is None else json.loads(json.dumps(value, allow_nan=False))


def _numbers_alike(value: Any) -> Any:
    """PostgreSQL keeps numbers as decimals: 1e22 comes back as a whole number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _numbers_alike(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers_alike(item) for item in value]
    return value
