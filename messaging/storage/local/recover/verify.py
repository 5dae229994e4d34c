"""Reads a whole log and verifies every checksum, without a lock: data that a broker has not synced shows as an unfinished tail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from messaging.storage.ledger_store import Unavailable
from messaging.storage.local.device.disk import Disk, DiskFile, OsDisk
from messaging.storage.local.format import records
from messaging.storage.local.format.directory import read_store_id
from messaging.storage.local.format.segment import BadSegment, Segment, parse_name, read_segment
from messaging.storage.local.read.commit_scan import Damage, Scan
from messaging.storage.local.read.footers import BadFooter, read_footer
from messaging.storage.local.snapshot import snapshot
from messaging.storage.local.snapshot.catalog import Catalog
from messaging.storage.local.snapshot.snapshot import BadSnapshot


@dataclass
class VerifyReport:
    """The result of `verify`. `problems` are human-readable sentences; `tail_bytes` may be a write in progress and is not a problem
    in itself."""

    directory: Path
    segments: int = 0
    commits: int = 0
    blocks: int = 0
    entries: int = 0
    data_bytes: int = 0
    ledgers: int = 0
    tail_bytes: int = 0
    damage: list[Damage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(directory: Path | str, *, disk: Disk | None = None) -> VerifyReport:
    """Reads every byte of the log and verifies every checksum. Raises `Unavailable` if this is not a log."""
    directory, disk = Path(directory), disk or OsDisk(read_only=True)
    report = VerifyReport(directory)
    store_id = store_id_in(disk, directory)
    alive: set[int] = set()
    index = _Index(disk, directory, store_id, report)
    newest = max((parsed.number for name in disk.names(directory) if (parsed := parse_name(name))), default=0)
    for segment, file in segments_in(disk, directory, store_id, report.problems):
        report.segments += 1
        _verify_segment(segment, file, report, alive, newest=segment.number == newest)
        _verify_footer(segment, file, report, index)
    report.ledgers = len(alive)
    index.compare(alive)
    return report


def _verify_segment(segment: Segment, file: DiskFile, report: VerifyReport, alive: set[int], *, newest: bool) -> None:
    scan = Scan(file, segment, limit=segment.data_stop if segment.sealed else 0)
    for commit in scan.commits():
        report.commits += 1
        for record in commit.records:
            if record.type == records.BLOCK:
                report.blocks += 1
                report.entries += record.entries
                report.data_bytes += record.stop - record.data_start
            elif record.type == records.CREATED:
                alive.add(record.ledger_id)
            elif record.type == records.DELETED:
                alive.discard(record.ledger_id)
    for damage in scan.damage:
        if damage.synced or segment.sealed:
            report.damage.append(damage._replace(synced=True))
            report.problems.append(str(report.damage[-1]))
        else:
            report.tail_bytes += damage.stop - damage.start
    if segment.sealed:
        if scan.stop != segment.data_stop and not scan.damage:
            report.problems.append(f"segment {segment.number} ends at byte {scan.stop}, its seal says {segment.data_stop}")
    elif not newest and report.tail_bytes:
        report.problems.append(f"segment {segment.number} is not the newest and has an unfinished tail")


def _verify_footer(segment: Segment, file: DiskFile, report: VerifyReport, index: _Index) -> None:
    if segment.sealed:
        try:
            footer = read_footer(file, segment)
        except (BadFooter, OSError) as error:
            report.problems.append(str(error))
            return
        if segment.number <= index.covered:
            index.footers.apply(segment.number, footer)


class _Index:
    """The contents of the snapshot, to be compared with the footers that it covers."""

    def __init__(self, disk: Disk, directory: Path, store_id: int, report: VerifyReport) -> None:
        self.covered = 0
        self.footers = Catalog({}, dict)
        self._report = report
        self._claimed = Catalog({}, dict)
        try:
            content = snapshot.read(disk, directory, store_id)
        except BadSnapshot as error:
            report.problems.append(str(error))
            return
        if content is not None:
            self.covered = content.covered
            self._claimed.restore(content)

    def compare(self, alive: set[int]) -> None:
        """Compares living ledgers only: a broker may have dropped parts of others since."""
        for ledger_id in sorted(alive & self.footers.states.keys()):
            claimed, actual = self._claimed.states.get(ledger_id), self.footers.states[ledger_id]
            if claimed is None or (claimed.last_entry, claimed.length_bytes) != (actual.last_entry, actual.length_bytes):
                self._report.problems.append(f"the snapshot of the index is wrong about ledger {ledger_id}")


def store_id_in(disk: Disk, directory: Path) -> int:
    store_id = read_store_id(disk, directory)
    if store_id is None:
        raise Unavailable(f"{directory} contains no log: there is no file named format")
    return store_id


def segments_in(disk: Disk, directory: Path, store_id: int, problems: list[str]) -> Iterator[tuple[Segment, DiskFile]]:
    """Yields the newest generation of each segment, in order; its file is open until the next step. What cannot be read goes to
    `problems`."""
    newest: dict[int, tuple[int, str]] = {}
    for name in disk.names(directory):
        parsed = parse_name(name)
        if parsed is not None:
            newest[parsed.number] = max(newest.get(parsed.number, (-1, "")), (parsed.generation, name))
    for _, (_, name) in sorted(newest.items()):
        try:
            file = disk.open(directory / name)
        except OSError as error:  # a dangling link, a directory, a pipe
            problems.append(f"{directory / name} cannot be opened: {error.strerror}")
            continue
        try:
            try:
                segment = read_segment(file, directory / name, store_id)
            except (BadSegment, OSError) as error:
                problems.append(str(error))
                continue
            yield segment, file
        finally:
            file.close()
