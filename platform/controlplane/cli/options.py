"""Options that override settings, and one-line errors, shared by all commands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import click

EXIT_CONFIGURATION = 2
P = ParamSpec("P")
T = TypeVar("T")


class Refused(click.ClickException):
    """An error in one line: what is wrong and what to do."""

    exit_code = EXIT_CONFIGURATION

    def show(self, file: Any = None) -> None:
        click.echo(f"magnetar: {self.format_message()}", err=True)


def refusals(command: Callable[P, T]) -> Callable[P, T]:
    """Turns errors that the user can fix into one line. Anything else keeps its traceback, because it is a bug."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        from messaging.settings import ConfigError
        from messaging.storage.disk_reserve import NO_SPACE

        try:
            return command(*args, **kwargs)
        except ConfigError as error:
            raise Refused(str(error)) from None
        except PermissionError as error:
            raise Refused(
                f"{error.strerror or error}: {error.filename or 'see above'}: change its permissions or its owner"
            ) from None
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise Refused(
                f"the disk is full ({error.filename or error.strerror}): free some space, or choose another directory with "
                f"--data-dir"
            ) from None

    return run


_OPTIONS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "data_dir": click.option("--data-dir", metavar="DIR", help="Directory for all data. [default: ~/.local/share/magnetar]"),
    "host": click.option("--host", metavar="HOST", help="Address to listen on. [default: 127.0.0.1]"),
    "broker_port": click.option(
        "--broker-port", metavar="PORT", help="Port of the binary protocol; 0 picks a free one. [default: 6650]"
    ),
    "broker_tls_port": click.option(
        "--broker-tls-port", metavar="PORT", help="Port of the binary protocol with TLS. [default: 6651]"
    ),
    "ws_port": click.option("--ws-port", metavar="PORT", help="Port for WebSocket clients; 0 picks a free one. [default: 8081]"),
    "web_port": click.option("--web-port", metavar="PORT", help="Port of console and REST; 0 picks a free one. [default: 8080]"),
    "tls": click.option(
        "--tls", metavar="MODE", help="off, self-signed, or files (with MAGNETAR_TLS_CERT_FILE and _KEY_FILE). [default: off]"
    ),
    "brokers": click.option(
        "--brokers",
        metavar="N",
        help="Broker processes that share the topics, each with a log of its own; auto: one for each processor. [default: 1]",
    ),
    "log_level": click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error. [default: info]"),
    "log_format": click.option("--log-format", metavar="FORMAT", help="json, console, or auto. [default: auto]"),
}
_COMMON = ("data_dir", "log_level", "log_format")


def settings_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that override the settings of the same name; the settings validate their values."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([*names, *_COMMON]):
            command = _OPTIONS[name](command)
        return refusals(command)

    return add
