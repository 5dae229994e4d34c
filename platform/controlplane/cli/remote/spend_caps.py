"""`magnetar spend-caps`: what a tenant may spend in a month, and what happens then."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.remote.command import TENANT, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_json, show_one, show_rows

COLUMNS = ("set_by", "amount", "currency", "action", "used_percent", "reached", "unknown")
PLATFORM = click.option("--platform", is_flag=True, help="The cap of the platform, which the tenant cannot change; else its own.")


@click.group("spend-caps", cls=RemoteGroup)
def spend_caps() -> None:
    """What a tenant may spend in a month: beyond it, it is throttled or stopped."""


@spend_caps.command("show")
@TENANT
@remote
def spend_caps_show(at: Remote, tenant: str) -> None:
    """Show what was spent this month, and the caps."""
    answer: Any = at.admin.tenants.spend_caps(at.tenant(tenant))
    if at.as_json:
        show_json(answer)
        return
    spent = f"{answer['spent']} {answer['currency']}" if answer["spent"] is not None else f"unknown: {answer['unknown']}"
    click.echo(f"spent in {answer['month'][:7]}: {spent}")
    click.echo(f"with usage up to: {answer['usage_until'] or 'none yet'}")
    if answer["stopped"]:
        click.echo(f"stopped: {answer['stopped']}")
    for name, rate in answer["throttled_to"].items():
        click.echo(f"throttled: {name} = {rate}")
    show_rows(answer["caps"], COLUMNS, as_json=False)


@spend_caps.command("set")
@click.argument("amount")
@click.argument("currency")
@click.option("--action", type=click.Choice(["throttle", "stop"]), required=True, help="Once the amount is spent.")
@click.option("--publish-rate-messages", type=click.IntRange(0), help="A second, for throttle; none: no limit.")
@click.option("--publish-rate-bytes", type=click.IntRange(0), help="The same in bytes.")
@click.option("--dispatch-rate-messages", type=click.IntRange(0), help="Messages that are delivered a second.")
@click.option("--dispatch-rate-bytes", type=click.IntRange(0), help="The same in bytes.")
@PLATFORM
@TENANT
@remote
def spend_caps_set(at: Remote, platform: bool, tenant: str, **body: Any) -> None:
    """Set what may be spent in a month, before credits and tax."""
    client = at.admin.tenants
    put = client.set_spend_caps_platform if platform else client.set_spend_caps_tenant
    given: Any = {name: value for name, value in body.items() if value is not None}
    show_one(put(at.tenant(tenant), given), as_json=at.as_json)


@spend_caps.command("remove")
@PLATFORM
@TENANT
@remote
def spend_caps_remove(at: Remote, platform: bool, tenant: str) -> None:
    """Remove a cap; what it did ends at once."""
    client = at.admin.tenants
    (client.delete_spend_caps_platform if platform else client.delete_spend_caps_tenant)(at.tenant(tenant))
