"""`magnetar completion`: what a shell needs to complete commands."""

from __future__ import annotations

import click

from controlplane.cli.remote.command import RemoteCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=RemoteCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands: `source <(magnetar completion bash)`."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has the three"
    click.echo(kind(context.find_root().command, {}, "magnetar", "_MAGNETAR_COMPLETE").source())
