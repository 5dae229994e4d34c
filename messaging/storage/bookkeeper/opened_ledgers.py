"""Ledgers that are sealed, or of another broker: opened once, with where they end, and remembered for the next read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.core.entries import DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import BookkeeperError, CorruptEntry
from messaging.bookkeeper.shell.ledger_reader import LedgerReader
from messaging.json_types import decoder_of
from messaging.storage.bookkeeper.account_bytes import AccountBytes
from messaging.storage.bookkeeper.reader import BlockReads, LedgerReading, Source
from messaging.storage.bookkeeper.store_errors import WHAT, told
from messaging.storage.bookkeeper.store_nodes import StoreNodes
from messaging.storage.caching_store import CacheAccount
from messaging.storage.ledger_store import SPARSE, Corrupt, LedgerInfo, StoreError

OPENED_MAX = 4096
OPENED_BYTES = 2_000
DIGEST_TYPE = DigestType.CRC32C
_PROPERTIES = "magnetar"


class OpenedLedger(NamedTuple):
    source: Source
    info: LedgerInfo


class OpenedLedgers:
    """Every call raises `StoreError`."""

    def __init__(self, client: BookkeeperClient, nodes: StoreNodes, password: bytes) -> None:
        self.reads = BlockReads()
        self._client = client
        self._nodes = nodes
        self._password = password
        self._sealed: OrderedDict[int, OpenedLedger] = OrderedDict()
        self._sealed_bytes = AccountBytes()

    def cache_in(self, account: CacheAccount) -> None:
        """See `CachingStore`."""
        self.reads.cache_in(account)
        self._sealed_bytes.count_in(account)

    def shrink(self, size: int) -> None:
        """Evicts at least so many bytes, as far as there are so many: what is remembered of reads, then ledgers that were not used
        for longest, which are opened again when they are."""
        size = self.reads.shrink(size)
        while size > 0 and self._sealed:
            size -= self._close(next(iter(self._sealed)))

    async def open(self, ledger_id: int) -> OpenedLedger:
        opened = self._sealed.get(ledger_id)
        if opened is not None:
            self._sealed.move_to_end(ledger_id)
            return opened
        number = self._nodes.bookkeeper_id(ledger_id)
        try:
            reader = await self._client.open(number, digest_type=DIGEST_TYPE, password=self._password)
        except BookkeeperError as error:
            raise told(error, ledger_id) from error
        return await self._opened(ledger_id, reader)

    def source_now(self, ledger_id: int) -> Source | None:
        """Of one that was opened."""
        opened = self._sealed.get(ledger_id)
        return None if opened is None else opened.source

    async def recover(self, ledger_id: int) -> LedgerInfo:
        """Takes it from its writer and seals it."""
        number = self._nodes.bookkeeper_id(ledger_id)
        try:
            reader = await self._client.recover(number, digest_type=DIGEST_TYPE, password=self._password)
        except BookkeeperError as error:
            raise told(error, ledger_id) from error
        return replace((await self._opened(ledger_id, reader)).info)

    async def properties(self, ledger_id: int) -> dict[str, str]:
        opened = self._sealed.get(ledger_id)
        if opened is not None:
            return opened.info.properties
        try:
            return properties_of(ledger_id, await self._client.metadata(self._nodes.bookkeeper_id(ledger_id)))
        except BookkeeperError as error:
            raise told(error, ledger_id) from error

    def forget(self, ledger_id: int) -> None:
        self._close(ledger_id)
        self.reads.forget(ledger_id)

    async def _opened(self, ledger_id: int, reader: LedgerReader) -> OpenedLedger:
        """With what its last block says."""
        properties = properties_of(ledger_id, reader.metadata)
        info = LedgerInfo(ledger_id, -1, 0, reader.metadata.is_closed, properties)
        source = Source(reader.last_entry_id, -1, SPARSE in properties, _payloads(reader))
        if reader.last_entry_id >= 0:
            try:
                last = await LedgerReading(ledger_id, source, self.reads).last()
            except CorruptEntry as error:
                raise Corrupt(f"where ledger {ledger_id} ends is lost: {error}", ledger_id, 0) from error
            info.last_entry, info.length_bytes = last.block.last_entry, last.end_bytes
        opened = OpenedLedger(source._replace(last_entry=info.last_entry), info)
        if info.sealed:
            self._close(ledger_id)
            self._sealed[ledger_id] = opened
            self._sealed_bytes.change(_opened_bytes(opened))  # which may have some evicted
            if len(self._sealed) > OPENED_MAX:
                self._close(next(iter(self._sealed)))
        return opened

    def _close(self, ledger_id: int) -> int:
        """The bytes that it took."""
        opened = self._sealed.pop(ledger_id, None)
        size = 0 if opened is None else _opened_bytes(opened)
        self._sealed_bytes.change(-size)
        return size


def _opened_bytes(opened: OpenedLedger) -> int:
    """About; its properties are there twice, and BookKeeper's metadata name its bookies."""
    return OPENED_BYTES + 2 * sum(len(name) + len(value) for name, value in opened.info.properties.items())


def custom_of(properties: dict[str, str]) -> dict[str, bytes]:
    """What BookKeeper keeps with a ledger of ours."""
    return {"application": b"magnetar", _PROPERTIES: msgspec.json.encode(properties)}


def properties_of(ledger_id: int, metadata: LedgerMetadata) -> dict[str, str]:
    try:
        return decoder_of(dict[str, str]).decode(metadata.custom.get(_PROPERTIES, b""))
    except msgspec.DecodeError as error:
        raise StoreError(f"{WHAT}: ledger {metadata.ledger_id} was made by something else: {error}", ledger_id) from None


def _payloads(reader: LedgerReader) -> Callable[[int, int, int | None], Awaitable[Sequence[bytes]]]:
    async def payloads(first: int, last: int, bytes_max: int | None) -> list[bytes]:
        return [entry.payload for entry in await reader.read(first, last, bytes_max)]

    return payloads
