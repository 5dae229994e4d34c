"""The brokers of a platform, held still together for the moment of a backup."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from controlplane.supervisor.lock import alive
from messaging.adminrpc.backup import BackupHeld, BackupHold, BackupKeep, BackupLedgers
from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import BACKUP_HOLD, BACKUP_KEEP, BACKUP_LEDGERS, BROKERS_LIST, STATUS
from messaging.errors import MagnetarError
from messaging.identity import service_token
from messaging.internal_tls import internal_client_tls
from messaging.settings import ConfigError, Settings

T = TypeVar("T")

KEEP_S = 120
RENEW_S = 20.0


def running_brokers(settings: Settings) -> list[str]:
    """The RPC addresses of the brokers that run on this data directory. Raises `ConfigError` for a file that cannot be read."""
    urls: list[str] = []
    for path in sorted((settings.data_path / "run").glob("broker*.json")):
        try:
            content = json.loads(path.read_bytes())
            if alive(int(content["pid"])):
                urls.append(str(content["rpc_url"]))
        except FileNotFoundError:
            continue  # it stopped a moment ago
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read ({type(error).__name__}): restart that broker") from None
    return urls


_at = "the broker at {}".format  # who runs the command is an operator


def brokers_of_the_fleet(settings: Settings, urls: Sequence[str]) -> list[str]:
    """The RPC addresses of all that share the metadata with those of `urls`, also of other machines. Raises `ConfigError`."""
    if not urls:
        return []
    tls, token = internal_client_tls(settings, "cli"), partial(service_token, settings, "cli")
    rpc = AdminRpc(_constant(urls[0]), token, tls=tls, name_of=_at)
    try:
        seen = rpc.call(BROKERS_LIST, Request()).brokers
    except MagnetarError as error:
        raise ConfigError(f"the brokers could not be listed: {error}") from None
    finally:
        rpc.close()
    live = [broker for broker in seen if broker.live]
    for broker in live:
        if len(live) > 1 and not broker.rpc_url:
            raise ConfigError(f"broker {broker.broker_id} is not ready: try again when it is, or was stopped")
    return [broker.rpc_url for broker in live] if len(live) > 1 else list(urls)


def require_same_brokers(settings: Settings, urls: Sequence[str]) -> None:
    """Raises `ConfigError` if one came that was not held, and so may have deleted what was to be copied before it was listed."""
    if sorted(brokers_of_the_fleet(settings, running_brokers(settings))) != sorted(urls):
        raise ConfigError("a broker came or went at the moment of the backup: try again")


def log_folders(data_path: Path) -> list[Path]:
    """The logs of all brokers that ever ran on this data directory."""
    folders = (folder / "log" for folder in data_path.glob("broker*") if folder.is_dir())
    return sorted((folder for folder in folders if (folder / "format").exists()), key=lambda folder: _number(folder.parent.name))


def _number(name: str) -> int:
    text = name.removeprefix("broker-")
    return int(text) if text.isdecimal() else 1


class HeldBrokers:
    """`hold` holds all of them; `go_on` lets them go on, and has their files kept until `end`. Calls block and raise
    `ConfigError`, which says that the backup has to be tried again. Each broker is asked over one connection, which is made before
    any is held."""

    def __init__(self, settings: Settings, urls: Sequence[str], backup_id: str) -> None:
        tls, token = internal_client_tls(settings, "cli"), partial(service_token, settings, "cli")
        self._clients = [AdminRpc(_constant(url), token, tls=tls, name_of=_at) for url in urls]
        self._threads = [ThreadPoolExecutor(1) for _ in urls]
        self._backup_id = backup_id
        self._ended = threading.Event()
        self._lost = ""
        self._asked = False
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def hold(self) -> list[BackupHeld]:
        self._ask_all(lambda client: client.call(STATUS, BrokerAsked()))
        self._asked = True
        request = BackupHold(backup_id=self._backup_id)
        return self._ask_all(lambda client: client.call(BACKUP_HOLD, request))

    def go_on(self) -> None:
        self._keep(KEEP_S)
        self._renewing.start()

    def ledgers(self) -> tuple[dict[int, int], dict[str, int]]:
        """Of brokers on bookies, after `go_on`: where ledgers end that they were writing, and their scopes with the epochs."""
        ends: dict[int, int] = {}
        scopes: dict[str, int] = {}
        for of_broker, its_scopes in self._ask_all(self._ledgers_of):
            for ledger_id, end in of_broker.items():  # one that is being deleted by one may have been written by another
                ends[ledger_id] = min(end, ends.get(ledger_id, end))
            for scope, epoch in its_scopes.items():  # the older of two is of one that lost it, unseen
                scopes[scope] = min(epoch, scopes.get(scope, epoch))
        return ends, scopes

    def _ledgers_of(self, client: AdminRpc) -> tuple[dict[int, int], dict[str, int]]:
        ends: dict[int, int] = {}
        scopes: dict[str, int] = {}
        after = -1
        while (page := client.call(BACKUP_LEDGERS, BackupLedgers(backup_id=self._backup_id, after_ledger_id=after))).ends:
            ends |= dict(page.ends)
            scopes |= page.scopes
            after = page.ends[-1][0]
        return ends, scopes

    def end(self) -> None:
        """Raises if some broker may have removed a file that was still to be copied."""
        self._end_renewing()
        self._keep(0)
        self._close()
        if self._lost:
            raise ConfigError(f"a broker was not told in time to keep its files, so the backup may lack some: {self._lost}")

    def give_up(self) -> None:
        """The brokers go on. Raises nothing."""
        self._end_renewing()
        with suppress(ConfigError):
            self._keep(0)
        self._close()

    def _end_renewing(self) -> None:
        """It uses the connections that are closed next."""
        self._ended.set()
        if self._renewing.is_alive():
            self._renewing.join()

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_S):
            try:
                self._keep(KEEP_S)
            except ConfigError as error:
                self._lost = str(error)
                return

    def _keep(self, keep_s: int) -> None:
        if not self._asked:
            return
        request = BackupKeep(backup_id=self._backup_id, keep_s=keep_s)
        self._ask_all(lambda client: client.call(BACKUP_KEEP, request))

    def _ask_all(self, ask: Callable[[AdminRpc], T]) -> list[T]:
        asked = [threads.submit(ask, client) for threads, client in zip(self._threads, self._clients, strict=True)]
        errors = [error for each in asked if (error := each.exception()) is not None]
        for error in errors:
            if not isinstance(error, MagnetarError):
                raise error
        if errors:
            raise ConfigError(f"the backup could not be taken: {errors[0]}; nothing was changed, try again")
        return [each.result() for each in asked]

    def _close(self) -> None:
        """Of threads and connections, which are a thread's own."""
        self._ask_all(lambda client: client.close())
        for threads in self._threads:
            threads.shutdown()
        self._clients, self._threads = [], []


def _constant(url: str) -> Callable[[], str]:
    return lambda: url


def require_all(folders: Iterable[Path], held: Iterable[BackupHeld]) -> None:
    """Raises `ConfigError` if a log is of a broker that does not run, while others do."""
    running = {each.log for each in held}
    for folder in folders:
        if str(folder) not in running:
            raise ConfigError(
                f"the broker of {folder} is not running, others are: start it, or stop the platform, so that all are of one moment"
            )
