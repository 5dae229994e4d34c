"""`magnetar log inspect | verify | repair`: shows what a log holds, checks whether it is intact, and repairs what can be repaired
without guessing.

All functions block. `inspect` and `verify` only read and take no lock, so they may run beside a broker; data that the broker has
not synced yet then shows as an unfinished tail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from messaging.storage.ledger_store import Unavailable
from messaging.storage.local.config import LocalConfig
from messaging.storage.local.device.disk import Disk, DiskFile, OsDisk, replace_file
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format import manifest, records
from messaging.storage.local.format.directory import FORMAT_VERSION, UnknownFormat, claim, lock, read_epoch, read_store_id
from messaging.storage.local.format.manifest import Manifest
from messaging.storage.local.format.segment import (
    PAGE_BYTES,
    BadSegment,
    DamagedHeaderPage,
    Segment,
    UnknownSegmentFormat,
    parse_name,
    read_segment,
    store_id_of,
)
from messaging.storage.local.log import Log
from messaging.storage.local.read.commit_scan import Scan
from messaging.storage.local.recover.header_page import restore_header_page
from messaging.storage.local.recover.recovery import Recovery
from messaging.storage.local.recover.verify import segments_in, store_id_in
from messaging.storage.local.recover.verify import verify as verify
from messaging.storage.local.snapshot import snapshot
from messaging.storage.local.snapshot.snapshot import BadSnapshot
from messaging.storage.local.write.seal import write_footer


@dataclass
class RepairReport:
    """What `repair` did and could not do: `remaining` entries are lost unless another copy exists."""

    actions: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)


def inspect(directory: Path | str, *, disk: Disk | None = None) -> Iterable[str]:
    """Human-readable lines: the format, each segment, each ledger. Raises `Unavailable` if this is not a log."""
    directory, disk = Path(directory), disk or OsDisk(read_only=True)
    store_id = store_id_in(disk, directory)
    yield f"log in {directory}: format {FORMAT_VERSION}, store {store_id:016x}, opened {read_epoch(disk, directory)} times"
    yield _describe_snapshot(disk, directory, store_id)
    ledgers: dict[int, list[str]] = {}
    problems: list[str] = []
    for segment, file in segments_in(disk, directory, store_id, problems):
        yield _describe(segment, file, ledgers)
    yield from problems
    for ledger_id, facts in sorted(ledgers.items()):
        yield f"ledger {ledger_id}: {', '.join(facts)}"


def _describe_snapshot(disk: Disk, directory: Path, store_id: int) -> str:
    try:
        content = snapshot.read(disk, directory, store_id)
    except BadSnapshot as error:
        return f"index: {error}"
    if content is None:
        return "index: no snapshot"
    return f"index: a snapshot of {content.ledgers} ledgers, up to segment {content.covered}"


def _describe(segment: Segment, file: DiskFile, ledgers: dict[int, list[str]]) -> str:
    name = f"segment {segment.number} generation {segment.generation}: {segment.size_bytes} bytes"
    scan = Scan(file, segment, limit=segment.data_stop if segment.sealed else 0)
    commits = 0
    spans: dict[int, tuple[int, int]] = {}
    for commit in scan.commits():
        commits += 1
        for record in commit.records:
            if record.type == records.BLOCK:
                first, _ = spans.get(record.ledger_id, (record.first_entry, 0))
                spans[record.ledger_id] = (first, record.first_entry + record.entries - 1)
            elif record.type in _FACTS:
                ledgers.setdefault(record.ledger_id, []).append(f"{_FACTS[record.type]} in segment {segment.number}")
    for ledger_id, (first, last) in spans.items():
        ledgers.setdefault(ledger_id, []).append(f"entries {first} to {last} in segment {segment.number}")
    state = "sealed" if segment.sealed else "open"
    return f"{name}, {state}, {scan.stop - PAGE_BYTES} bytes in {commits} commits of {len(spans)} ledgers"


_FACTS = {records.CREATED: "created", records.SEALED: "sealed", records.DELETED: "deleted"}


def repair(directory: Path | str, *, disk: Disk | None = None, accept_metadata: bool = False) -> RepairReport:
    """Restores what is known from elsewhere (`format`, `epoch`, header pages, footers) and sets a torn tail aside. What the log had
    and has no more is given up. `accept_metadata`: the next start takes whatever metadata there is.

    Takes the lock: raises `DirectoryInUse`; `UnknownFormat` if another release wrote the log; `Unavailable` if there is no log
    here. Corrupt entries are only listed."""
    directory, disk = Path(directory), disk or OsDisk()
    directory_lock = lock(disk, directory)
    try:
        report = RepairReport()
        store_id = _restore_format(disk, directory, report)
        for name in disk.names(directory):
            if parse_name(name):
                _restore_header_page(disk, directory / name, store_id, report)
        _restore_epoch(disk, directory, report)
        former = _give_up_claims(disk, directory, report, accept_metadata)
        _recover(disk, directory, former, report)
        report.remaining += verify(directory, disk=disk).problems
        return report
    finally:
        directory_lock.release()


def _give_up_claims(disk: Disk, directory: Path, report: RepairReport, accept_metadata: bool) -> Manifest:
    """Writes a manifest that asks for nothing but the generation. Returns what the former one asked for."""
    stored: Manifest | None = None
    try:
        stored = manifest.read(disk, directory)
    except Unavailable:
        report.actions.append(f"wrote {directory / manifest.NAME} again; which metadata belongs to the log is not known any more")
    former = stored or Manifest()
    if accept_metadata:
        report.actions.append("the next start takes the metadata that there is")
    if manifest.NAME in disk.names(directory) or accept_metadata:
        manifest.write(disk, directory, Manifest(manifest.ACCEPTED if accept_metadata else former.generation))
    return former


def _recover(disk: Disk, directory: Path, former: Manifest, report: RepairReport) -> None:
    disk.remove(directory / snapshot.NAME)  # it may not reflect the repair
    log = Log.of(LogEnvironment(directory, disk, LocalConfig(), *claim(disk, directory)))
    recovery = Recovery(log, gives_up=True)
    try:
        recovery.run().file.close()
    finally:
        log.background.stop()
        log.close()
    for active in recovery.unsealed:
        write_footer(active)
    report.remaining += former.missing(recovery.segments, recovery.end)
    for damage in recovery.damage:
        if not damage.synced:
            report.actions.append(f"set aside the torn tail: {damage}")


def _restore_format(disk: Disk, directory: Path, report: RepairReport) -> int:
    try:
        store_id = read_store_id(disk, directory)
    except UnknownFormat:
        raise  # that is no damage
    except Unavailable:
        store_id = None
    if store_id is not None:
        return store_id
    store_id_in_pages: int | None = None
    for name in disk.names(directory):
        if parse_name(name):
            try:
                store_id_in_pages = store_id_of(_head(disk, directory / name)) or store_id_in_pages
            except UnknownSegmentFormat as error:
                raise UnknownFormat(f"{error}: use the release that wrote it") from error
    if store_id_in_pages is None:
        raise Unavailable(f"{directory} contains no log: there is no file named format and no segment with a store id")
    content = {"format": FORMAT_VERSION, "store_id": f"{store_id_in_pages:016x}"}
    replace_file(disk, directory / "format", json.dumps(content).encode())
    report.actions.append(f"wrote {directory / 'format'} again, from the header pages of the segments")
    return store_id_in_pages


def _restore_epoch(disk: Disk, directory: Path, report: RepairReport) -> None:
    try:
        epoch = read_epoch(disk, directory)
    except Unavailable:
        epoch = 0
    newest = 0
    for segment, file in segments_in(disk, directory, store_id_in(disk, directory), []):
        scan = Scan(file, segment)
        for _ in scan.commits():
            newest = max(newest, scan.epoch)
    if epoch == 0 or epoch < newest:
        # A start may not have written any commit: its epoch must not be reused either.
        replace_file(disk, directory / "epoch", json.dumps({"epoch": newest + 1000}).encode())
        report.actions.append(f"wrote {directory / 'epoch'} again, from the newest commit")


def _restore_header_page(disk: Disk, path: Path, store_id: int, report: RepairReport) -> None:
    file = disk.open(path)
    try:
        try:
            read_segment(file, path, store_id)
        except UnknownSegmentFormat as error:
            raise UnknownFormat(str(error)) from error
        except DamagedHeaderPage as error:
            if restore_header_page(file, path, store_id) is None:
                report.remaining.append(f"{error}; no commit of this log stands behind it")
            else:
                report.actions.append(f"wrote the header page of {path} again")
        except BadSegment as error:
            report.remaining.append(str(error))
    finally:
        file.close()


def _head(disk: Disk, path: Path) -> bytes:
    file = disk.open(path)
    try:
        return file.read(PAGE_BYTES, 0)
    finally:
        file.close()
