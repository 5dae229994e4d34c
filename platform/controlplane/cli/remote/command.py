"""What all commands share: the context, the client, errors in one line, and exit codes for scripts."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import click

from controlplane.cli.remote.contexts import Context

EXIT_DENIED, EXIT_MISSING, EXIT_CONFLICT, EXIT_UNREACHABLE, EXIT_REFUSED, EXIT_USAGE = 3, 4, 5, 6, 7, 64
_BY_STATUS = {
    401: EXIT_DENIED,
    403: EXIT_DENIED,
    404: EXIT_MISSING,
    409: EXIT_CONFLICT,
    412: EXIT_CONFLICT,
    429: EXIT_UNREACHABLE,
    503: EXIT_UNREACHABLE,
}


class Failed(click.ClickException):
    """An error in one line, with its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = exit_code  # of click's class, for all of them

    def show(self, file: Any = None) -> None:
        click.echo(f"magnetar: {self.format_message()}", err=True)


class WrongUsage(click.UsageError):
    """The command line is wrong."""

    exit_code = EXIT_USAGE


class WrongParameter(click.BadParameter):
    exit_code = EXIT_USAGE


class RemoteCommand(click.Command):
    """A wrong command line has an exit code of its own: 2 is what `plan` answers for a difference."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise WrongUsage(error.format_message(), error.ctx) from None


class RemoteGroup(click.Group):
    command_class = RemoteCommand

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise WrongUsage(error.format_message(), error.ctx) from None


@dataclass(frozen=True)
class Remote:
    """The platform that a command speaks to."""

    context: Context
    token: str
    as_json: bool

    @functools.cached_property
    def admin(self) -> Any:
        """A `messaging.client.admin.Admin`, which is imported when it is needed: that takes as long as all else together."""
        from messaging.client.admin import Admin

        return Admin(self.context.url, self.token or None)

    def tenant(self, name: str = "") -> str:
        chosen = name or self.context.tenant
        if not chosen:
            raise Failed("name a tenant: --tenant NAME, or once and for all `magnetar login --tenant NAME`", EXIT_USAGE)
        return chosen


def remote(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that gets a `Remote` first. Its errors are one line and an exit code."""

    @click.option("--context", "context_name", default="", metavar="NAME", help="The context. [default: the current one]")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(command)
    def run(*arguments: Any, context_name: str, as_json: bool, **options: Any) -> Any:
        return with_errors(lambda: command(_open(context_name, as_json), *arguments, **options))

    return run


def _open(context_name: str, as_json: bool) -> Remote:
    from controlplane.cli.remote import contexts

    context = contexts.load().chosen(context_name)
    return Remote(context, context.read_token(), as_json)


def with_errors(work: Callable[[], Any]) -> Any:
    from controlplane.cli.remote.contexts import WrongContext
    from messaging.client.admin import ApiError, Unreachable
    from messaging.errors import MagnetarError

    try:
        return work()
    except ApiError as error:
        _fail(error.detail, _BY_STATUS.get(error.status, EXIT_REFUSED), error.request_id)
    except Unreachable as error:
        _fail(f"{error}: is the platform running, and is the address of the context right?", EXIT_UNREACHABLE)
    except WrongContext as error:
        _fail(str(error), EXIT_USAGE)
    except MagnetarError as error:
        _fail(error.message, _BY_STATUS.get(error.http_status, EXIT_REFUSED))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # `| head` has read enough; nothing more is written at exit
        raise SystemExit(0) from None


def _fail(message: str, code: int, request_id: str = "") -> NoReturn:
    raise Failed(f"{message} (request {request_id})" if request_id else message, code) from None


@dataclass(frozen=True)
class Topic:
    """The parts of the name of a topic, as the admin client takes them."""

    tenant: str
    namespace: str
    name: str
    kind: Any  # topics or non-persistent

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.tenant, self.namespace, self.name

    def __str__(self) -> str:
        domain = "non-persistent" if self.kind == "non-persistent" else "persistent"
        return f"{domain}://{self.tenant}/{self.namespace}/{self.name}"


class TopicParameter(click.ParamType[Topic]):
    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Topic:
        if isinstance(value, Topic):
            return value
        domain, found, rest = str(value).rpartition("://")
        parts = rest.split("/", 2)
        if len(parts) != 3 or not all(parts) or (found and domain not in ("persistent", "non-persistent")):
            raise WrongParameter(f"{value!r} is no topic: use TENANT/NAMESPACE/TOPIC", ctx, param)
        return Topic(parts[0], parts[1], parts[2], kind="non-persistent" if domain == "non-persistent" else "topics")


TOPIC = TopicParameter()
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
FORCE = click.option("--force", is_flag=True, help="Also while clients are connected.")
DAYS = click.option("--days", type=click.IntRange(1, 3650), help="For so many days from now. [default: it does not end by itself]")
TENANT = click.option("--tenant", default="", metavar="TENANT", help="The tenant. [default: that of the context]")


def until(days: int | None) -> dict[str, str]:
    """The field of a body that says when something ends; none where it does not."""
    return {"expires_at": (datetime.now(UTC) + timedelta(days=days)).isoformat()} if days else {}
