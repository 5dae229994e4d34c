"""``magnetar log inspect | verify | repair``: prints the results of `messaging.storage.local.recover.inspect`."""

from __future__ import annotations

import sys

import msgspec

from messaging.settings import ConfigError, Settings
from messaging.storage.ledger_store import StoreError
from messaging.storage.local.format.directory import DirectoryInUse
from messaging.storage.local.recover.inspect import inspect, repair, verify


def run(settings: Settings, what: str, broker: int = 1, *, accept_metadata: bool = False) -> int:
    """`broker`: the number of the one whose log it is. Returns 0 if the log is intact and 1 if something is lost or damaged. Raises
    `ConfigError` if there is no log or it is in use."""
    if settings.ledger_url:
        raise ConfigError("the messages are on the servers of ledger_url: there is no log of files to look at")
    of_broker = msgspec.structs.replace(settings, brokers=max(broker, settings.brokers), broker_number=broker)
    folder = of_broker.broker_path / "log"
    if not folder.is_dir():
        raise ConfigError(f"there is no log in {folder}: choose the data directory of a broker with --data-dir")
    try:
        if what == "repair":
            return _repair(str(folder), accept_metadata)
        return {"inspect": _inspect, "verify": _verify}[what](str(folder), broker)
    except DirectoryInUse as error:
        raise ConfigError(f"{error}: stop the broker first") from None
    except StoreError as error:
        raise ConfigError(f"{folder} cannot be read as a log: {error}") from None


def _inspect(folder: str, broker: int) -> int:
    for line in inspect(folder):
        sys.stdout.write(line + "\n")
    return 0


def _verify(folder: str, broker: int) -> int:
    report = verify(folder)
    sys.stdout.write(
        f"{report.segments} segments, {report.commits} commits, {report.blocks} blocks, {report.entries} entries, "
        f"{report.data_bytes} bytes of {report.ledgers} ledgers"
        + (f"; the last {report.tail_bytes} bytes are an unfinished commit" if report.tail_bytes else "")
        + "\n"
    )
    for problem in report.problems:
        sys.stdout.write(f"PROBLEM  {problem}\n")
    if report.problems:
        sys.stdout.write(
            "stop the broker, copy the directory, then run: magnetar log repair"
            + (f" --broker {broker}" if broker > 1 else "")
            + "\n"
        )
    return 0 if report.ok else 1


def _repair(folder: str, accept_metadata: bool) -> int:
    report = repair(folder, accept_metadata=accept_metadata)
    for action in report.actions or ["nothing needed repair"]:
        sys.stdout.write(f"{action}\n")
    for remaining in report.remaining:
        sys.stdout.write(f"LOST  {remaining}\n")
    return 1 if report.remaining else 0
