"""Packs of ledgers, made without bookies."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

from messaging.storage.bookkeeper.backup.packs import MAGIC, LedgerHead, framed, head_bytes
from messaging.storage.bookkeeper.block_format import encode


def adds(count: int) -> list[bytes]:
    """Of one entry each."""
    made = []
    for number in range(count):
        before, data = encode(b"h", b"%04d" % number, array("I", [4]), number, number - 1, 4 * (number + 1))
        made.append(before + data)
    return made


def pack(folder: Path, *parts: Sequence[bytes]) -> Path:
    path = folder / "ledgers-000000.pack"
    path.write_bytes(MAGIC + b"".join(b"".join(part) for part in parts))
    return path


def ledger(ledger_id: int, payloads: list[bytes], count: int | None = None) -> list[bytes]:
    head = LedgerHead(ledger_id, len(payloads) if count is None else count, {"scope": f"scope {ledger_id % 2}"})
    return [*head_bytes(head), *(part for payload in payloads for part in framed(payload))]
