"""`magnetar login` and `magnetar contexts`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import click

from controlplane.cli.remote.command import EXIT_USAGE, Failed, RemoteCommand, RemoteGroup, with_errors
from controlplane.cli.remote.output import show_rows


@click.command(cls=RemoteCommand)
@click.argument("url", default="http://127.0.0.1:8080")
@click.option("--token-file", type=click.Path(path_type=Path), help="A file with the token; it is read each time it is needed.")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input and keep it with the context.")
@click.option("--context", "name", default="", metavar="NAME", help="Name of the context. [default: the host]")
@click.option("--tenant", default="", metavar="TENANT", help="The tenant that commands are about unless they name one.")
@click.option("--broker-url", default="", metavar="URL", help="Of produce and consume. [default: what the platform says]")
def login(url: str, token_file: Path | None, token_stdin: bool, name: str, tenant: str, broker_url: str) -> None:
    """Remember a platform and the key to use there. URL is that of the console."""
    with_errors(lambda: _login(url, token_file, token_stdin, name, tenant, broker_url))


def _login(url: str, token_file: Path | None, token_stdin: bool, name: str, tenant: str, broker_url: str) -> None:
    from controlplane.cli.remote import contexts
    from messaging.client.admin import Admin

    if token_file is not None and token_stdin:
        raise Failed("give one of --token-file and --token-stdin", EXIT_USAGE)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failed(f"{url!r} is no address of a platform: use http://host:8080 or https://host", EXIT_USAGE)
    token = ""
    if token_file is None:
        token = (sys.stdin.readline() if token_stdin else click.prompt("Token", hide_input=True, err=True)).strip()
    context = contexts.Context(
        name or parts.hostname,
        url.rstrip("/"),
        broker_url,
        tenant,
        token,
        str(token_file.absolute()) if token_file else "",
    )
    me = Admin(context.url, context.read_token()).platform.me()
    if not broker_url:
        context = replace(context, broker_url=_broker_url(parts, me.get("ws_url", "")))
    known = contexts.load()
    known.by_name[context.name] = context
    known.current = context.name
    contexts.save(known)
    click.echo(f"signed in at {context.url} as {me['role']}; context {context.name!r} is the current one")


def _broker_url(platform: SplitResult, told: str) -> str:
    """`told`: the address that the platform says. A listener says where it is bound to, which is not the name under which others
    reach it. Behind TLS it is the proxy's, whose path /ws/ leads to the broker."""
    assert platform.hostname is not None
    ours = f"[{platform.hostname}]" if ":" in platform.hostname else platform.hostname
    parts = urlsplit(told or "ws://0.0.0.0:8081")
    if platform.scheme == "https" and parts.scheme != "wss":
        return f"wss://{ours}:{platform.port or 443}"
    everywhere = parts.hostname in ("0.0.0.0", "::", "localhost", "::1") or (parts.hostname or "").startswith("127.")
    theirs = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{ours if everywhere else theirs}:{parts.port}"


@click.group("contexts", cls=RemoteGroup)
def contexts_group() -> None:
    """Choose among the platforms you have signed in at."""


@contexts_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def contexts_list(as_json: bool) -> None:
    """List them; no token is shown."""

    def work() -> None:
        from controlplane.cli.remote import contexts

        known = contexts.load()
        rows = [
            {"name": each.name, "current": each.name == known.current, "url": each.url, "tenant": each.tenant}
            for each in known.by_name.values()
        ]
        show_rows(rows, ("name", "current", "url", "tenant"), as_json=as_json)

    with_errors(work)


@contexts_group.command("use")
@click.argument("name")
def contexts_use(name: str) -> None:
    """Make a context the current one."""

    def work() -> None:
        from controlplane.cli.remote import contexts

        known = contexts.load()
        known.current = known.chosen(name).name
        contexts.save(known)

    with_errors(work)


@contexts_group.command("remove")
@click.argument("name")
def contexts_remove(name: str) -> None:
    """Forget a context and its token. The key itself stays valid until it is revoked."""

    def work() -> None:
        from controlplane.cli.remote import contexts

        known = contexts.load()
        del known.by_name[known.chosen(name).name]
        known.current = "" if known.current == name else known.current
        contexts.save(known)

    with_errors(work)
