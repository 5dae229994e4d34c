"""`magnetar issuers`: other organisations' issuers whose tokens a tenant accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from controlplane.cli.remote.command import EXIT_USAGE, TENANT, Failed, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_one, show_rows


@click.group(cls=RemoteGroup)
def issuers() -> None:
    """Issuers of other organisations whose tokens a tenant accepts."""


@issuers.command("list")
@TENANT
@remote
def issuers_list(at: Remote, tenant: str) -> None:
    """List them, and when their keys were fetched."""
    columns = ("name", "issuer", "audience", "key_ids", "fetched_at", "problem")
    show_rows(at.admin.issuers.each(at.tenant(tenant)), columns, as_json=at.as_json)


@issuers.command("show")
@click.argument("issuer")
@TENANT
@remote
def issuers_show(at: Remote, issuer: str, tenant: str) -> None:
    """Show what was agreed with one."""
    show_one(at.admin.issuers.get(at.tenant(tenant), issuer), as_json=at.as_json)


@issuers.command("set")
@click.argument("name")
@click.option("--issuer", required=True, help="The claim `iss` of its tokens.")
@click.option("--audience", required=True, help="Their claim `aud`.")
@click.option("--jwks-url", required=True, help="Where its keys are.")
@click.option("--role", "roles", multiple=True, required=True, metavar="VALUE=KEY", help="Value of the claim and name of a key.")
@click.option("--role-claim", default="sub", help="The claim with the value. [default: sub]")
@click.option("--clock-skew-s", type=int, default=60, help="How far its clock may be off. [default: 60]")
@TENANT
@remote
def issuers_set(at: Remote, name: str, roles: Sequence[str], tenant: str, **terms: Any) -> None:
    """Accept tokens of an issuer, or change what was agreed with it."""
    mapped = {}
    for text in roles:
        value, equals, key = text.partition("=")
        if not (value and equals and key):
            raise Failed(f"{text!r} is no value of a claim and the name of a key: use VALUE=KEY", EXIT_USAGE)
        mapped[value] = key
    show_one(at.admin.issuers.set(at.tenant(tenant), name, {**terms, "roles": mapped}), as_json=at.as_json)


@issuers.command("delete")
@click.argument("issuer")
@TENANT
@remote
def issuers_delete(at: Remote, issuer: str, tenant: str) -> None:
    """Accept its tokens no more."""
    at.admin.issuers.delete(at.tenant(tenant), issuer)
