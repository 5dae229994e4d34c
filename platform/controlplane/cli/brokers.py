"""`magnetar brokers`: what an operator says of the brokers of a fleet."""

from __future__ import annotations

import click

from controlplane.cli.options import settings_options

ROLE = "service:cli"


@click.group()
def brokers() -> None:
    """See the brokers of a fleet, and have others take over from one that is gone. One of them has to run."""


@brokers.command("list")
@settings_options()
def brokers_list(**overrides: str | None) -> None:
    """List brokers: id, live or gone, address, and what is wrong with those that are gone; separated by tabs."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from messaging.adminrpc.base import Request
        from messaging.adminrpc.methods import BROKERS_LIST
        from tenants import broker

        for seen in broker.rpc().call(BROKERS_LIST, Request()).brokers:
            click.echo("\t".join([seen.broker_id, "live" if seen.live else "gone", seen.broker_url or "-", seen.problem or "-"]))


@brokers.command("drain")
@click.argument("broker_id")
@click.option("--end", "ends", is_flag=True, help="It takes bundles again, and keeps those that it has not given away.")
@settings_options()
def drain(broker_id: str, ends: bool, **overrides: str | None) -> None:
    """Have a broker give all its bundles to the others, as before it is stopped for a while.

    It takes none until it starts again, or until --end. Its clients follow by themselves."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from tenants.access import platform_actor
        from tenants.actions.brokers import drain_broker

        left = drain_broker(platform_actor(ROLE), broker_id, ends=ends)
        if ends:
            click.echo(f"Broker {broker_id} takes bundles again; it has {left}.")
        elif left:
            raise click.ClickException(
                f"{left} bundles stay with broker {broker_id}: no other broker may have them, or none takes bundles; "
                "`magnetar brokers list` shows who runs, the page Brokers of the console the isolation policies"
            )
        else:
            click.echo(f"Broker {broker_id} has given all its bundles away. It takes none until it starts again, or until --end.")


@brokers.command("recover")
@click.argument("broker_id")
@click.option("--accept-loss", is_flag=True, help="Also where what it acknowledged last cannot be read: those messages come again.")
@settings_options()
def recover(broker_id: str, accept_loss: bool, **overrides: str | None) -> None:
    """Have others take over from a broker that is gone, where that failed.

    They try it by themselves within a minute; with --accept-loss they take over although its last acknowledgements are lost."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.gone_brokers import recover_broker
        from tenants.access import platform_actor

        recover_broker(platform_actor(ROLE), broker_id, accept_loss=accept_loss)
        click.echo(f"What broker {broker_id} left is recovered: others serve its topics from now on.")


@brokers.command("forget")
@click.argument("broker_id")
@settings_options()
def forget(broker_id: str, **overrides: str | None) -> None:
    """Say that a broker is gone for good: what is left of it is taken over or deleted.

    Messages and acknowledgements stay. What it metered and nobody fetched is on its disk alone, so keep that until it is billed."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.gone_brokers import forget_broker
        from tenants.access import platform_actor

        forgotten = forget_broker(platform_actor(ROLE), broker_id)
        click.echo(
            f"Broker {broker_id} is forgotten: {forgotten.bundles} bundles are nobody's and go to whichever broker is asked for "
            f"them, and {forgotten.ledgers} ledgers ({forgotten.length_bytes} bytes) were deleted that nothing refers to."
        )
