"""The `magnetar` command with a subcommand for each process and tool. Each subcommand imports what it needs when it runs.

A configuration error is one line on stderr that names the key and what is valid, with exit code 2 and no traceback.
"""

from __future__ import annotations

import os
import sys
import time

import click

from controlplane.cli.audit import audit
from controlplane.cli.backup import backup
from controlplane.cli.brokers import brokers
from controlplane.cli.keys import keys
from controlplane.cli.options import Refused, refusals, settings_options
from controlplane.cli.remote.administrators import administrators
from controlplane.cli.remote.alert_rules import alert_rules
from controlplane.cli.remote.browse import browse
from controlplane.cli.remote.completion import completion
from controlplane.cli.remote.dead_letters import dead_letters
from controlplane.cli.remote.delayed import delayed, redrive
from controlplane.cli.remote.issuers import issuers
from controlplane.cli.remote.jobs import jobs
from controlplane.cli.remote.login import contexts_group, login
from controlplane.cli.remote.messages import consume, peek, produce, tail
from controlplane.cli.remote.plan import apply, export, plan
from controlplane.cli.remote.recycle_bin import recycle_bin
from controlplane.cli.remote.rights import access, add_keys, ceilings, permissions, roles
from controlplane.cli.remote.spend_caps import spend_caps
from controlplane.cli.remote.teams import teams
from controlplane.cli.remote.tenant import add_audit, add_usage, invoices, language, notices, people, policies
from controlplane.cli.remote.topics import explain, subscriptions, topics, trace
from controlplane.cli.tune import tune
from controlplane.cli.usage import usage
from controlplane.cli.users import users

PRIVATE_UMASK = 0o077  # files of the platform (messages, databases, logs) are private to their owner
PACKAGES = {"pulsar": "pulsar-client", "google": "protobuf", "jwt": "PyJWT"}  # by what is imported, where the names differ
STARTED_S = time.monotonic()  # as close to the start of the process as possible


def _print_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_version())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version.")
def main() -> None:
    """Magnetar: a multi-tenant messaging platform for Apache Pulsar clients.

    Every setting is also a MAGNETAR_* variable or a key of the TOML file that MAGNETAR_CONFIG names.
    """
    os.umask(PRIVATE_UMASK)


@main.command()
@settings_options("host", "broker_port", "web_port", "ws_port", "broker_tls_port", "tls", "brokers")
def standalone(brokers: str | None, **overrides: str | None) -> None:
    """Run the whole platform under one supervisor."""
    from controlplane import datadir, ports
    from controlplane.supervisor import lock
    from controlplane.supervisor import standalone as plans
    from messaging.settings import ConfigError, load

    settings = load(os.environ, brokers=None if brokers == "auto" else brokers, **overrides)
    if brokers == "auto":
        settings = plans.with_brokers_for(settings, len(os.sched_getaffinity(0)))
    _warn_of_open_listeners(settings.host, settings.tls)
    datadir.make_writable(settings)
    try:
        descriptor = lock.acquire(str(settings.data_path))
    except lock.AlreadyRunning as error:
        raise ConfigError(str(error)) from None
    ports.require_free([*ports.broker_listeners(settings), *ports.web_listeners(settings)])
    datadir.make_secrets(settings)
    plan = plans.make_plan(settings, STARTED_S, prepare=plans.needs_preparation(settings))
    _become_supervisor(plan.to_json(), descriptor)


def _warn_of_open_listeners(host: str, tls: str) -> None:
    from messaging.local_caller import is_loopback

    if tls == "off" and not is_loopback(host):
        click.echo(
            f"magnetar: warning: other machines can reach the listeners on {host} without TLS, so tokens, passwords and "
            "messages can be read on the network. Use --tls self-signed or files, or listen on 127.0.0.1 behind a TLS proxy.",
            err=True,
        )


def _become_supervisor(plan: str, lock: int) -> None:
    """Replaces this process by the supervisor, which keeps the process id and the lock but none of the loaded libraries."""
    import tempfile

    from controlplane.child_process import python

    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(plan)
        file.flush()
        os.set_inheritable(file.fileno(), True)
        os.set_inheritable(lock, True)
        sys.stdout.flush()
        command = [*python("controlplane.supervisor"), str(file.fileno()), str(lock)]
        os.execv(command[0], command)


@main.command()
@settings_options("host", "broker_port", "ws_port", "broker_tls_port", "tls")
def broker(**overrides: str | None) -> None:
    """Run one broker."""
    from controlplane import datadir, ports
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    ports.require_free(ports.own_broker_listeners(settings))
    from messaging.broker.runtime.main import main as run

    sys.exit(run(settings))


@main.command()
@settings_options("host", "web_port", "tls")
def web(**overrides: str | None) -> None:
    """Run the web process: console and REST."""
    from controlplane import datadir, ports
    from controlplane.child_process import environment
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    ports.require_free(ports.web_listeners(settings))
    os.environ.update(environment(settings))  # Django's settings module loads the settings again
    from controlplane.web import main as run

    sys.exit(run(settings))


@main.command()
@settings_options()
def worker(**overrides: str | None) -> None:
    """Run one worker for scheduled tasks."""
    from controlplane import bootstrap, datadir
    from controlplane.child_process import environment
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    bootstrap.prepare(settings)  # as the web process does; whichever comes first prepares the database
    os.environ.update(environment(settings))  # Django's settings module loads the settings again
    from controlplane.worker import main as run

    sys.exit(run(settings))


@main.command()
@settings_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def doctor(as_json: bool, **overrides: str | None) -> None:
    """Check the installation and the running platform."""
    from controlplane.doctor.report import run
    from messaging.settings import load

    sys.exit(run(load(os.environ, **overrides), as_json=as_json))


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@refusals
def bench(arguments: tuple[str, ...]) -> None:
    """Measure Magnetar against what this machine can do. `magnetar bench --help` lists the options."""
    try:
        from tests.benchmarks.run import main as run

        code = run(list(arguments))
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "tests":
            raise Refused("the benchmarks are only in a source checkout: run this command there") from None
        package = PACKAGES.get(name, name)
        raise Refused(
            f"the benchmarks need the package {package}, which is not installed: `make setup`, or pip install {package}"
        ) from None
    sys.exit(code)


@main.command()
@click.argument("what", type=click.Choice(["inspect", "verify", "repair"]))
@click.option(
    "--accept-metadata",
    is_flag=True,
    help="repair: let the next start take the metadata there is; what only one of both knows is lost",
)
@click.option("--broker", default=1, type=click.IntRange(1, 64), help="the log of which broker, where there are several")
@settings_options()
def log(what: str, accept_metadata: bool, broker: int, **overrides: str | None) -> None:
    """Inspect, verify or repair a broker's log.

    inspect and verify only read; repair needs the broker to be stopped."""
    from controlplane.log_tools import run
    from messaging.settings import load

    if accept_metadata and what != "repair":
        raise Refused(f"--accept-metadata belongs to repair, not to {what}: leave it out")
    sys.exit(run(load(os.environ, **overrides), what, broker, accept_metadata=accept_metadata))


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(_version())


def _version() -> str:
    from importlib.metadata import version as installed

    return installed("magnetar")


add_audit(audit)
add_keys(keys)
add_usage(usage)
COMMANDS: tuple[click.Command, ...] = (
    *(audit, backup, brokers, users, keys, usage),
    *(login, contexts_group, topics, subscriptions, browse, peek, tail, produce, consume, explain, trace),
    *(policies, people, administrators, teams, roles),
    *(permissions, access, issuers, ceilings, spend_caps, alert_rules, notices, invoices, language),
    *(delayed, dead_letters, redrive, recycle_bin, jobs),
    *(plan, apply, export, tune, completion),
)
for each in COMMANDS:
    main.add_command(each)
