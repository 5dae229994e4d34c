"""The `magnetar` command: one word for each process and tool. Each command imports what it needs when it runs.

An error of configuration is one line on stderr that names the key and what would be right, and exit code 2; no traceback.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import click

STARTED_S = time.monotonic()  # as near to the start of the process as we can look
EXIT_CONFIGURATION = 2
P = ParamSpec("P")
T = TypeVar("T")


class Refused(click.ClickException):
    """One line for a person: what is wrong and what to do."""

    exit_code = EXIT_CONFIGURATION

    def show(self, file: Any = None) -> None:
        click.echo(f"magnetar: {self.format_message()}", err=True)


def _refusals(command: Callable[P, T]) -> Callable[P, T]:
    """What a person can mend becomes a line; anything else stays a traceback, because it is a bug."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        from messaging.settings import ConfigError

        try:
            return command(*args, **kwargs)
        except ConfigError as error:
            raise Refused(str(error)) from None
        except PermissionError as error:
            raise Refused(
                f"{error.strerror or error}: {error.filename or 'see above'}; change its permissions or its owner"
            ) from None

    return run


_OPTIONS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "data_dir": click.option("--data-dir", metavar="DIR", help="Where everything is kept. [default: ~/.local/share/magnetar]"),
    "host": click.option("--host", metavar="HOST", help="Address to listen on. [default: 127.0.0.1]"),
    "broker_port": click.option(
        "--broker-port", metavar="PORT", help="Clients, binary protocol; 0 picks a free one. [default: 6650]"
    ),
    "broker_tls_port": click.option("--broker-tls-port", metavar="PORT", help="The same with TLS. [default: 6651]"),
    "ws_port": click.option("--ws-port", metavar="PORT", help="WebSocket clients; 0 picks a free one. [default: 8081]"),
    "web_port": click.option("--web-port", metavar="PORT", help="Console and REST; 0 picks a free one. [default: 8080]"),
    "tls": click.option(
        "--tls", metavar="MODE", help="off, self-signed, or files (with MAGNETAR_TLS_CERT_FILE and _KEY_FILE). [default: off]"
    ),
    "log_level": click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error. [default: info]"),
    "log_format": click.option("--log-format", metavar="FORMAT", help="json, console, or auto. [default: auto]"),
}
_COMMON = ("data_dir", "log_level", "log_format")


def _settings_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that override settings of the same name; their values are checked by the settings, which say what is wrong."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([*names, *_COMMON]):
            command = _OPTIONS[name](command)
        return _refusals(command)

    return add


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
def main() -> None:
    """Magnetar: a multi-tenant messaging platform that Apache Pulsar clients already speak.

    Every setting is also a MAGNETAR_* variable or a key of the TOML file that MAGNETAR_CONFIG names.
    """


@main.command()
@_settings_options("host", "broker_port", "web_port", "ws_port", "broker_tls_port", "tls")
def standalone(**overrides: str | None) -> None:
    """Run everything: broker, web, worker and queue, embedded, under one supervisor."""
    from controlplane import datadir, ports
    from controlplane.supervisor import lock
    from controlplane.supervisor import standalone as plans
    from messaging.settings import ConfigError, load

    settings = load(os.environ, **overrides)
    datadir.make_writable(settings)
    try:
        descriptor = lock.acquire(str(settings.data_path))
    except lock.AlreadyRunning as error:
        raise ConfigError(str(error)) from None
    ports.require_free([*ports.broker_listeners(settings), *ports.web_listeners(settings)])
    datadir.make_secrets(settings)
    plan = plans.make_plan(settings, STARTED_S, prepare=plans.needs_preparation(settings))
    _become_supervisor(plan.to_json(), descriptor)


def _become_supervisor(plan: str, lock: int) -> None:
    """Replaces this process: the supervisor keeps its process id and its lock, and none of the libraries loaded so far."""
    import tempfile

    from controlplane.supervisor.standalone import python

    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(plan)
        file.flush()
        os.set_inheritable(file.fileno(), True)
        os.set_inheritable(lock, True)
        sys.stdout.flush()
        command = [*python("controlplane.supervisor"), str(file.fileno()), str(lock)]
        os.execv(command[0], command)


@main.command()
@_settings_options("host", "broker_port", "ws_port", "broker_tls_port", "tls")
def broker(**overrides: str | None) -> None:
    """Run one broker."""
    from controlplane import datadir, ports
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    ports.require_free(ports.broker_listeners(settings))
    from messaging.broker.runtime.main import main as run

    sys.exit(run(settings))


@main.command()
@_settings_options("host", "web_port", "tls")
def web(**overrides: str | None) -> None:
    """Run the web process: console, REST and live views."""
    from controlplane import datadir, ports
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    ports.require_free(ports.web_listeners(settings))
    _export(settings)
    from controlplane.web import main as run

    sys.exit(run(settings))


@main.command()
@_settings_options()
def worker(**overrides: str | None) -> None:
    """Run one worker: scheduled upkeep, usage and billing jobs."""
    from controlplane import bootstrap, datadir
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    bootstrap.prepare(settings)  # as the web process does: whichever comes first
    _export(settings)
    from workers.main import main as run

    sys.exit(run(settings))


def _export(settings: Any) -> None:
    """Django's settings module loads the settings again: options given here must be in what it reads."""
    from controlplane.supervisor.standalone import environment

    os.environ.update(environment(settings))


@main.command()
@_settings_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def doctor(as_json: bool, **overrides: str | None) -> None:
    """Look over the installation, the data directory and the platform running in it."""
    from controlplane.doctor.report import run
    from messaging.settings import load

    sys.exit(run(load(os.environ, **overrides), as_json=as_json))


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_refusals
def bench(arguments: tuple[str, ...]) -> None:
    """Measure this machine's floors and Magnetar against them. `magnetar bench --help` lists the options."""
    try:
        from tests.benchmarks.run import main as run
    except ModuleNotFoundError as error:
        raise Refused(f"the benchmarks are part of the source checkout, which is not here ({error.name} is missing)") from None
    sys.exit(run(list(arguments)))


@main.command()
@click.argument("what", type=click.Choice(["inspect", "verify", "repair"]))
@_settings_options()
def log(what: str, **overrides: str | None) -> None:
    """Look into a broker's log, compare every checksum in it, or mend it (with the broker stopped)."""
    from controlplane.log_tools import run
    from messaging.settings import load

    sys.exit(run(load(os.environ, **overrides), what))


@main.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    click.echo(installed("magnetar"))


if __name__ == "__main__":
    main()
