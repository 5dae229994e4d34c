"""Decides from manifests alone which hours must be computed again. Needs no Spark, so a run with nothing to do does not start it.

An hour depends on the records whose event time lies in it, and on those near enough to its edges that a gauge may be carried across
(`GAUGE_CARRY_MS_MAX`). Its *inputs* are the files that may hold such records, as one checksum over their names and contents. An
hour is dirty if its inputs differ from those of its current version: this detects new, late and withdrawn files, in whatever order
they arrive.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from messaging.usage_schema import GAUGE_CARRY_MS_MAX, READABLE_VERSIONS

HOUR_MS = 3_600_000
HASHED_AT_ONCE_BYTES = 64 * 2**20
WINDOW_DAYS = 31
_DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True)
class Manifest:
    """A broker's description of one of its files. `path` is that file, `name` its path below the raw directory. `members`: name and
    SHA-256 of the files that it was made of, or of itself. `numbers`: theirs among the files of the boot; those of earlier
    releases have none."""

    path: Path
    name: str
    sha256: str
    rows: int
    interval_start_ms: int
    interval_end_ms: int
    sums: Mapping[str, int]
    source: str
    boot_epoch: int
    members: tuple[tuple[str, str], ...]
    numbers: tuple[int, ...] = ()

    @property
    def hour_ms(self) -> int:
        """The start of the hour in which its records lie."""
        return floor_hour(self.interval_start_ms)

    def touched_hours(self) -> range:
        """Its hour, and the neighbouring hours that its records may affect."""
        return range(floor_hour(self.interval_start_ms - GAUGE_CARRY_MS_MAX), self.interval_end_ms + GAUGE_CARRY_MS_MAX, HOUR_MS)


@dataclass(frozen=True)
class Rejected:
    """A file that was left out, and why; it is included by a later run once it is intact."""

    name: str
    reason: str


@dataclass(frozen=True)
class LostFiles:
    """Files of a boot that are not there, by number, and the time between those beside them; `from_ms` 0: the boot's start."""

    source: str
    boot_epoch: int
    first: int
    last: int
    from_ms: int = 0
    until_ms: int = 0


@dataclass(frozen=True)
class Plan:
    """`inputs`: hour start -> checksum of its inputs, for dirty hours only. `files`: all whole files that may affect these hours.
    `known`: hour -> inputs of its current version. `boots`: (source, boot epoch) -> the hour of its first file, if it is certain
    that there were none before. `oldest_ms`: earlier hours are not computed. `settled`: files of other hours that were looked
    at. `more`: earlier hours were not looked at yet; a further run does. `lost`: files missing before those of dirty hours."""

    inputs: Mapping[int, str]
    files: tuple[Manifest, ...]
    rejected: tuple[Rejected, ...]
    known: Mapping[int, str]
    boots: Mapping[tuple[str, int], int]
    oldest_ms: int
    settled: tuple[Manifest, ...] = ()
    more: bool = False
    lost: tuple[LostFiles, ...] = ()

    def inputs_of(self, files: Iterable[Manifest]) -> dict[int, str]:
        """`inputs`, if of `files` only these are left."""
        left = _dirty(files, self.known, min(self.inputs, default=0), max(self.inputs, default=0) + 1)
        return {hour: left[hour] for hour in self.inputs if hour in left}


def floor_hour(at_ms: int) -> int:
    return at_ms - at_ms % HOUR_MS


def hour_name(hour_ms: int) -> str:
    """ "2026-11-21T08", UTC."""
    return f"{datetime.fromtimestamp(hour_ms / 1000, UTC):%Y-%m-%dT%H}"


def hour_folder(hour_ms: int) -> str:
    """ "date=2026-11-21/hour=08", UTC."""
    return f"{datetime.fromtimestamp(hour_ms / 1000, UTC):date=%Y-%m-%d/hour=%H}"


def hour_of_name(name: str) -> int:
    return int(datetime.strptime(name, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp()) * 1000


def make_plan(raw_directory: Path, known: Mapping[int, str], now_ms: int, lookback_days: int) -> Plan:
    """What is to be done first: the latest `WINDOW_DAYS` days in which anything is, of the last `lookback_days`. So neither a plan
    nor a run grows with the number of months. Where there is little to read, it also hashes the files of hours whose inputs differ
    from `known`: if only a damaged file is new, no engine is started for it."""
    oldest_ms = floor_hour(now_ms - lookback_days * 24 * HOUR_MS)
    oldest_ms -= oldest_ms % _DAY_MS
    end_ms = now_ms - now_ms % _DAY_MS + 2 * _DAY_MS  # a clock of some broker may be ahead
    rejected: dict[str, Rejected] = {}
    first: Plan | None = None
    while True:
        start_ms = max(oldest_ms, end_ms - WINDOW_DAYS * _DAY_MS)
        plan = _plan_of(raw_directory, known, start_ms, end_ms, oldest_ms)
        rejected |= {rejection.name: rejection for rejection in plan.rejected}
        if first is not None and plan.inputs:
            return replace(first, rejected=tuple(rejected.values()), more=True)
        if plan.inputs:
            first = plan
        if start_ms <= oldest_ms:
            return replace(first or plan, rejected=tuple(rejected.values()))
        end_ms = start_ms


def _plan_of(raw_directory: Path, known: Mapping[int, str], start_ms: int, end_ms: int, oldest_ms: int) -> Plan:
    """Of the hours from `start_ms` to `end_ms`; it reads the manifests of the days before and after too, also of the day before the
    oldest hour: its last files belong to that hour's inputs as long as it is looked at."""
    first_ms = start_ms - _DAY_MS
    manifests, broken = read_manifests(raw_directory, first_ms, end_ms + _DAY_MS)
    rejected = list(broken)
    known = {hour: inputs for hour, inputs in known.items() if start_ms <= hour < end_ms}
    files = _files_of(_dirty(manifests, known, start_ms, end_ms), manifests)
    damaged: set[str] = set()
    if sum(file_size(manifest.path) for manifest in files) <= HASHED_AT_ONCE_BYTES:
        for manifest in files:
            problem = _damage(manifest)
            if problem:
                rejected.append(Rejected(manifest.name, problem))
                damaged.add(manifest.name)
    whole = [manifest for manifest in manifests if manifest.name not in damaged]
    dirty = _dirty(whole, known, start_ms, end_ms)  # again: a file that was left out may have been the only change
    boots: dict[tuple[str, int], int] = {}
    for manifest in whole:
        boot = (manifest.source, manifest.boot_epoch)
        boots[boot] = min(manifest.hour_ms, boots.get(boot, manifest.hour_ms))
    certain = {boot: hour for boot, hour in boots.items() if hour >= first_ms + _DAY_MS}
    settled = tuple(manifest for manifest in whole if manifest.hour_ms not in dirty and start_ms <= manifest.hour_ms < end_ms)
    lost = lost_files(manifests, certain, dirty)
    return Plan(dirty, tuple(_files_of(dirty, whole)), tuple(rejected), known, certain, oldest_ms, settled, lost=lost)


def file_size(path: Path) -> int:
    """In bytes; 0 where it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_manifests(raw_directory: Path, start_ms: int, end_ms: int) -> tuple[list[Manifest], list[Rejected]]:
    """All manifests of the days from `start_ms` to `end_ms`, by name. Files without a manifest are ignored; a broken manifest is
    rejected. Files that another one was made of, and that are still there, are passed over."""
    manifests: list[Manifest] = []
    rejected: list[Rejected] = []
    first, last = (f"{datetime.fromtimestamp(at / 1000, UTC):date=%Y-%m-%d}" for at in (start_ms, end_ms))
    for day in sorted(raw_directory.glob("date=*")):
        if not first <= day.name < last:
            continue
        for path in sorted(day.glob("hour=*/*.json")):
            name = path.relative_to(raw_directory).as_posix()
            try:
                manifests.append(_manifest(json.loads(path.read_bytes()), path, raw_directory))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                rejected.append(Rejected(name, f"not a manifest: {type(error).__name__}: {error}"))
    replaced = {member for manifest in manifests for member in manifest.members if member != (manifest.name, manifest.sha256)}
    return [manifest for manifest in manifests if (manifest.name, manifest.sha256) not in replaced], rejected


def _manifest(fields: Mapping[str, object], path: Path, raw_directory: Path) -> Manifest:
    def integer(name: str) -> int:
        value = fields[name]
        if type(value) is not int:
            raise ValueError(f"{name} is {value!r}, not an integer")
        return value

    if integer("schema_version") not in READABLE_VERSIONS:
        raise ValueError(
            f"schema version {fields['schema_version']} is not one of {READABLE_VERSIONS}: it needs a job of that release"
        )
    file = str(fields["file"])
    if file != path.with_suffix(".parquet").name:
        raise ValueError(f"it speaks of {file!r}, a file of another name")
    if not 0 < integer("interval_end_ms") - integer("interval_start_ms") <= HOUR_MS:
        raise ValueError("its interval is empty or wider than an hour")
    if floor_hour(integer("interval_start_ms")) != floor_hour(integer("interval_end_ms") - 1):
        raise ValueError("its interval crosses an hour")
    sums = fields["sums"]
    if not isinstance(sums, dict) or not all(type(value) is int for value in sums.values()):
        raise ValueError("sums is not a table of integers")
    parquet = path.with_name(file)
    return Manifest(
        parquet,
        parquet.relative_to(raw_directory).as_posix(),
        str(fields["sha256"]),
        integer("rows"),
        integer("interval_start_ms"),
        integer("interval_end_ms"),
        sums,
        str(fields["source"]),
        integer("boot_epoch"),
        _members(fields, parquet.relative_to(raw_directory).as_posix()),
        _numbers(fields),
    )


def _members(fields: Mapping[str, object], name: str) -> tuple[tuple[str, str], ...]:
    members = fields.get("members", [(name, fields["sha256"])])
    if not isinstance(members, list) or not members:
        raise ValueError("members is not a list of names and checksums")
    return tuple((str(member), str(sha256)) for member, sha256 in members)


def _numbers(fields: Mapping[str, object]) -> tuple[int, ...]:
    numbers = fields.get("file_numbers", [])
    if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("file_numbers is not a list of numbers")
    return tuple(numbers)


def lost_files(manifests: Iterable[Manifest], begun: Collection[tuple[str, int]], hours: Collection[int]) -> tuple[LostFiles, ...]:
    """Numbers that no file has, each with the first file behind them being of one of `hours`. `begun`: boots whose first file is
    among `manifests`, or would be: their numbers start at 0. Files behind the last one that is there are not missed."""
    boots: dict[tuple[str, int], dict[int, Manifest]] = defaultdict(dict)
    for manifest in manifests:
        for number in manifest.numbers:
            boots[manifest.source, manifest.boot_epoch][number] = manifest
    lost = []
    for (source, boot_epoch), files in sorted(boots.items()):
        before = -1 if (source, boot_epoch) in begun else min(files) - 1
        for number in sorted(files):
            if number > before + 1 and files[number].hour_ms in hours:
                from_ms = files[before].interval_end_ms if before in files else 0
                until_ms = files[number].interval_start_ms
                lost.append(LostFiles(source, boot_epoch, before + 1, number - 1, from_ms, until_ms))
            before = number
    return tuple(lost)


def _dirty(manifests: Iterable[Manifest], known: Mapping[int, str], start_ms: int, end_ms: int) -> dict[int, str]:
    """Hour -> checksum of its inputs, for hours from `start_ms` to `end_ms` where it differs from the known one."""
    manifests = list(manifests)
    present = {manifest.hour_ms for manifest in manifests}
    touching: dict[int, list[str]] = defaultdict(list)
    for manifest in manifests:
        for hour in manifest.touched_hours():
            touching[hour] += [f"{name} {sha256}\n" for name, sha256 in manifest.members]
    # An hour that lost all its files is computed once more, to state explicitly that it is empty.
    current = {hour: _digest(touching[hour] if hour in present else []) for hour in present | set(known)}
    return {hour: inputs for hour, inputs in sorted(current.items()) if start_ms <= hour < end_ms and inputs != known.get(hour)}


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _files_of(hours: Mapping[int, str], manifests: Iterable[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if any(hour in hours for hour in manifest.touched_hours())]


def _damage(manifest: Manifest) -> str:
    try:
        with manifest.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if digest == manifest.sha256 else f"its SHA-256 is {digest}, the manifest says {manifest.sha256}"
