"""Packs that are damaged: each is noticed, whatever their checksums say."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.storage.bookkeeper.backup.packs import MAGIC, DamagedPack, checked, ledgers_of
from tests.support.bookkeeper.made_packs import adds, ledger, pack


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = pack(tmp_path, ledger(7, adds(3)), ledger(8, []), ledger(9, adds(1)))
    assert [(head.ledger_id, list(payloads)) for head, payloads in ledgers_of(path)] == [(7, adds(3)), (8, []), (9, adds(1))]
    count = checked(path)
    assert (count.ledger_ids, count.adds, count.scopes) == ([7, 8, 9], 4, {"scope 0", "scope 1"})


def test_every_place_where_it_is_cut_off(tmp_path: Path) -> None:
    path = pack(tmp_path, ledger(7, adds(2)))
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        if length == len(MAGIC):
            assert checked(path).ledger_ids == []  # so it is counted what there has to be
            continue
        with pytest.raises(DamagedPack):
            checked(path)


def test_a_block_that_is_missing_or_twice_or_something_else(tmp_path: Path) -> None:
    first, second, third = adds(3)
    for payloads in ([second, third], [first, third], [first, first, second]):
        with pytest.raises(DamagedPack, match="ledger 7: a block before block"):
            checked(pack(tmp_path, ledger(7, payloads)))
    with pytest.raises(DamagedPack, match="ledger 7, block 0"):
        checked(pack(tmp_path, ledger(7, [b"something else"])))
    with pytest.raises(DamagedPack, match="where a ledger was to begin"):
        checked(pack(tmp_path, ledger(7, [first, second], count=1)))
    path = tmp_path / "other"
    path.write_bytes(b"something else")
    with pytest.raises(DamagedPack, match="other is no pack"):
        checked(path)
