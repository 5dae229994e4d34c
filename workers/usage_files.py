"""Takes the usage files of brokers on other machines into this data directory.

Files never change, so taking one again is harmless, and what was not taken is still there: a broker keeps its files. One becomes
part of a larger file where it was computed (`spark_jobs.raw_compaction`); that file names its members, which are not taken again.
A file comes before its manifest, without which nobody reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from messaging.adminrpc.methods import USAGE_LIST_FILES, USAGE_READ_FILE
from messaging.adminrpc.usage import UsageFileList, UsageFileRead
from messaging.atomic_files import make_directory, replace_file
from messaging.errors import MagnetarError, NotFound
from spark_jobs.plan import read_manifests
from workers.each_broker import at_each_broker
from workers.environment import Environment, Stopping

BOOTS = "boots"
FILE_BYTES_MAX = 256 << 20  # a broker writes about a megabyte; a compacted day has more
_TAKEN = "taken"  # a folder: a file for each broker of which everything was taken once


def take_usage_files(environment: Environment, days: int, renew: Callable[[], None]) -> int:
    """Takes what brokers have of the last `days` days, and returns how many files that were. Does nothing where the settings name
    no brokers: then these write into this data directory. Raises `MagnetarError` for one that is away, after the others."""
    if not environment.settings.broker_rpc_urls:
        return 0
    taken = 0
    oldest = f"date={environment.now() - timedelta(days=days):%Y-%m-%d}"

    def take(broker_id: str) -> None:
        nonlocal taken
        for folder in environment.rpc.call(USAGE_LIST_FILES, UsageFileList(broker_id=broker_id)).folders:
            if folder != BOOTS and folder < oldest:
                continue
            for _ in _take_folder(environment, broker_id, folder):
                taken += 1
                renew()
                if environment.stopping.is_set():
                    raise Stopping("the worker ends; the next run goes on")
        if days >= environment.settings.usage_lookback_days:
            _note_whole(environment, broker_id)

    at_each_broker(environment, take)
    return taken


def never_taken(environment: Environment, broker_ids: list[str]) -> list[str]:
    """Those of which this directory never had everything."""
    folder = _raw(environment).parent / _TAKEN
    return [broker_id for broker_id in broker_ids if not (folder / _hashed(broker_id)).exists()]


def _take_folder(environment: Environment, broker_id: str, folder: str) -> Iterator[str]:
    here = _raw(environment) / folder
    listed = _listed(environment, broker_id, folder)
    if folder == BOOTS:
        for name in sorted(listed):
            if not _ended(here / name) and _copy(environment, broker_id, folder, name):
                yield name
        return
    missing = [name for name in sorted(listed) if name.endswith(".json") and not (here / name).exists()]
    if not missing:
        return
    members = _members(environment, folder)
    for name in missing:
        parquet = f"{name.removesuffix('.json')}.parquet"
        if f"{folder}/{parquet}" not in members and _take_file(environment, broker_id, folder, name, parquet):
            yield name


def _take_file(environment: Environment, broker_id: str, folder: str, name: str, parquet: str) -> bool:
    manifest = _read(environment, broker_id, folder, name)
    data = _read(environment, broker_id, folder, parquet) if manifest is not None else None
    if manifest is None or data is None:
        return False  # it became part of another one, which is listed next time
    if hashlib.sha256(data).hexdigest() != json.loads(manifest).get("sha256"):
        raise MagnetarError(
            f"usage file {folder}/{parquet} of broker {broker_id} is not what its manifest says: repair it there, or remove both"
        )
    here = _raw(environment) / folder
    make_directory(here)
    replace_file(here / parquet, data, durable=True)
    replace_file(here / name, manifest, durable=True)
    return True


def _copy(environment: Environment, broker_id: str, folder: str, name: str) -> bool:
    """Whether there was anything new."""
    data = _read(environment, broker_id, folder, name)
    path = _raw(environment) / folder / name
    if data is None or (path.exists() and path.read_bytes() == data):
        return False
    make_directory(path.parent)
    replace_file(path, data, durable=True)
    return True


def _ended(path: Path) -> bool:
    """Whether a boot is over whose file was taken: that does not change any more."""
    try:
        return bool(json.loads(path.read_bytes())["ended"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _listed(environment: Environment, broker_id: str, folder: str) -> set[str]:
    names: set[str] = set()
    after, more = "", True
    while more:
        page = environment.rpc.call(USAGE_LIST_FILES, UsageFileList(broker_id=broker_id, usage_folder=folder, after_file=after))
        names |= {file.name for file in page.files}
        after, more = max((file.name for file in page.files), default=after), page.more and bool(page.files)
    return names


def _members(environment: Environment, folder: str) -> set[str]:
    day = datetime.strptime(folder.partition("/")[0], "date=%Y-%m-%d").replace(tzinfo=UTC)
    start_ms = int(day.timestamp()) * 1000
    manifests, _ = read_manifests(_raw(environment), start_ms, start_ms + 86_400_000)
    return {name for manifest in manifests for name, _ in manifest.members}


def _read(environment: Environment, broker_id: str, folder: str, name: str) -> bytes | None:
    """None: it is not there any more."""
    data = b""
    while True:
        try:
            piece = environment.rpc.call(
                USAGE_READ_FILE, UsageFileRead(broker_id=broker_id, usage_folder=folder, file_name=name, file_offset=len(data))
            )
        except NotFound:
            return None
        data += piece.data
        if len(data) >= piece.size_bytes or not piece.data:
            return data if len(data) == piece.size_bytes else None
        if piece.size_bytes > FILE_BYTES_MAX:
            raise MagnetarError(f"usage file {folder}/{name} of broker {broker_id} has {piece.size_bytes} bytes, which is too many")


def _note_whole(environment: Environment, broker_id: str) -> None:
    folder = _raw(environment).parent / _TAKEN
    make_directory(folder)
    replace_file(folder / _hashed(broker_id), broker_id.encode(), durable=True)


def _hashed(broker_id: str) -> str:
    return hashlib.sha256(broker_id.encode()).hexdigest()[:32]


def _raw(environment: Environment) -> Path:
    return environment.settings.data_path / "usage" / "raw"
