"""Messages on bookies: their ledgers are read from there into a backup, and written from it into another BookKeeper.

Its libraries are loaded only where it is used, so this module is imported late.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from controlplane.backup.brokers import HeldBrokers
from controlplane.backup.copies import Copies
from controlplane.backup.manifest import BackupManifest
from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.config import Config
from messaging.bookkeeper.errors import BookkeeperError
from messaging.bookkeeper.metadata.store import MetadataStore
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.json_types import decoder_of
from messaging.settings import ConfigError
from messaging.storage.bookkeeper.access import bookie_context, zookeeper_options
from messaging.storage.bookkeeper.backup.copying import PIECE_BYTES, LedgerCopying
from messaging.storage.bookkeeper.backup.nodes import BackedUpNodes, RestoredNodes
from messaging.storage.bookkeeper.backup.pace import Pace
from messaging.storage.bookkeeper.backup.packs import CONTENT_FORMAT, Pack, StoreContent, checked
from messaging.storage.bookkeeper.backup.restoring import LedgerRestoring
from messaging.storage.bookkeeper.store import in_zookeeper
from messaging.storage.bookkeeper.store_errors import told
from messaging.storage.ledger_store import StoreError

FOLDER = "bookkeeper"
CONTENT = f"{FOLDER}/store.json"

T = TypeVar("T")


class NotedLedgers(NamedTuple):
    """`listed` are those that there were right after the moment; `ends` where those end that brokers were writing."""

    listed: set[int]
    ends: dict[int, int]


class BookieLedgers:
    """Calls block, each with a session of its own, and raise `ConfigError` and `OSError`. `metadata_store`: as in the store."""

    def __init__(
        self, ledger_url: str, metadata_store: Callable[[BookkeeperUrl], MetadataStore] | None = None, config: Config | None = None
    ) -> None:
        try:
            self.url = BookkeeperUrl.parse(ledger_url)
            self._config = config or Config(frame_bytes_max=self.url.frame_bytes_max, ssl_context=bookie_context(self.url))
            self._password = self.url.password()
            self._metadata_store = metadata_store or partial(in_zookeeper, options=zookeeper_options(self.url))
        except ValueError as error:
            raise ConfigError(f"ledger_url: {error}") from None
        self._noted: NotedLedgers | None = None
        self._starts: int | None = None

    # --- taking

    def check(self) -> None:
        """Whether there is such a store. To be called before it is asked which brokers there are."""
        _run("the ledgers on bookies cannot be copied", self.checked())

    def note(self, brokers: HeldBrokers) -> None:
        """Right after the moment."""
        self._noted = _run("the ledgers on bookies cannot be copied", self.noted(brokers.ledgers))

    def copy(self, copies: Copies, bytes_per_s: float) -> None:
        """What was noted."""
        assert self._noted is not None
        _run("the ledgers on bookies cannot be copied", self.copied(self._noted, copies, bytes_per_s))

    async def noted(self, ask_brokers: Callable[[], tuple[dict[int, int], dict[str, int]]]) -> NotedLedgers:
        async with self._session() as (client, metadata):
            nodes = BackedUpNodes(metadata, self.url)
            await nodes.look()
            listed = await nodes.listed_ids()  # first: what comes after it, brokers tell
            ends, scopes = await asyncio.to_thread(ask_brokers)
            await LedgerCopying(client, nodes, self._password).require_owners(scopes)
            await nodes.look()
            if self._starts not in (None, nodes.record.epoch):
                raise StoreError(
                    "a broker started at the moment of the backup, and may have deleted ledgers before they were listed: try again"
                )
        return NotedLedgers(listed, ends)

    async def copied(self, noted: NotedLedgers, copies: Copies, bytes_per_s: float, again_s: float | None = None) -> None:
        async with self._session() as (client, metadata):
            nodes = BackedUpNodes(metadata, self.url)
            await nodes.look()
            copying = LedgerCopying(client, nodes, self._password, **({} if again_s is None else {"again_s": again_s}))
            pace = Pace(bytes_per_s, max(bytes_per_s, PIECE_BYTES))
            content = await copying.copy(*noted, lambda name: copies.growing(f"{FOLDER}/{name}"), pace)
        copies.write(CONTENT, msgspec.json.encode(content))

    async def checked(self) -> None:
        async with self._session() as (_, metadata):
            nodes = BackedUpNodes(metadata, self.url)
            await nodes.look()
        self._starts = nodes.record.epoch

    # --- restoring

    def require_empty(self, manifest: BackupManifest) -> None:
        _run("the backup cannot be restored", self._require_empty(manifest.magnetar_backup))

    def restore(self, folder: Path, manifest: BackupManifest) -> None:
        """Everything was checked."""
        _run("the ledgers could not be restored", self.restored(folder, manifest))

    async def restored(self, folder: Path, manifest: BackupManifest) -> None:
        content, packs = read_content(folder, manifest)
        async with self._session() as (client, metadata):
            restoring = LedgerRestoring(client, RestoredNodes(metadata, self.url), self.url)
            await restoring.run(manifest.magnetar_backup, packs)
            await restoring.end(content)

    async def _require_empty(self, backup_id: str) -> None:
        async with self._session() as (_, metadata):
            await RestoredNodes(metadata, self.url).require_empty(backup_id)

    # --- inside

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[tuple[BookkeeperClient, MetadataStore]]:
        metadata = self._metadata_store(self.url)
        client = BookkeeperClient(metadata, self._config)
        try:
            await client.start()
        except BookkeeperError as error:
            raise told(error) from error
        try:
            yield client, metadata
        finally:
            await client.stop()


def read_content(folder: Path, manifest: BackupManifest) -> tuple[StoreContent, list[Pack]]:
    """What the backup has of a store, and its packs. Raises `ConfigError` unless all of it are files of the manifest, and this one
    is as it was written."""
    path = folder / CONTENT
    sums = {file.path: file.sha256 for file in manifest.files}
    if CONTENT not in sums:
        raise ConfigError(f"the backup {folder} is damaged: {CONTENT} is not part of it; restore another one")
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sums[CONTENT]:
            raise ConfigError(f"the backup {folder} is damaged: {CONTENT} does not match its checksum; restore another one")
        content = decoder_of(StoreContent).decode(data)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the backup is damaged: {path} cannot be read: {error}; restore another one") from None
    if content.format > CONTENT_FORMAT:
        raise ConfigError(
            f"the backup was made by a later release: its ledgers have format {content.format}, this one reads {CONTENT_FORMAT}"
        )
    packs = list[Pack]()
    for name in content.packs:
        if not name or Path(name).name != name or f"{FOLDER}/{name}" not in sums:
            raise ConfigError(f"the backup {folder} is damaged: {FOLDER}/{name} is not part of it; restore another one")
        packs.append(Pack(folder / FOLDER / name, sums[f"{FOLDER}/{name}"]))
    return content, packs


def verify_ledgers(folder: Path, manifest: BackupManifest) -> None:
    """That all ledgers are there, and their blocks follow one another. Reads all of them; checksums were compared. Raises
    `ConfigError`."""
    content, packs = read_content(folder, manifest)
    ledger_ids, adds = list[int](), 0
    for pack in packs:
        try:
            count = checked(pack.path)
        except (StoreError, OSError) as error:
            raise ConfigError(f"the backup {folder} is damaged: {error}; restore another one") from None
        ledger_ids += count.ledger_ids
        adds += count.adds
    twice = [first for first, second in itertools.pairwise(sorted(ledger_ids)) if first == second]
    if twice:
        raise ConfigError(f"the backup {folder} is damaged: it has ledger {twice[0]} twice; restore another one")
    if (len(ledger_ids), adds) != (content.ledgers, content.adds):
        raise ConfigError(
            f"the backup {folder} is damaged: it has {len(ledger_ids)} ledgers with {adds} blocks, and was made with "
            f"{content.ledgers} and {content.adds}; restore another one"
        )


def _run(what: str, call: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(call)
    except (StoreError, BookkeeperError) as error:
        raise ConfigError(f"{what}: {error}") from None
