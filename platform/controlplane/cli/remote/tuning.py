"""`magnetar topics tune`: the settings for the producers of a topic from its measured traffic, and what they would save."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.remote.command import TOPIC, Remote, RemoteCommand, Topic, remote
from controlplane.cli.remote.output import show_json
from controlplane.cli.tune import questions, show_report


@click.command("tune", cls=RemoteCommand)
@click.argument("topic", type=TOPIC)
@questions
@remote
def tune(at: Remote, topic: Topic, **asked: Any) -> None:
    """Print settings for its producers, from its traffic now, and what they would save."""
    body: Any = {name: value for name, value in asked.items() if value is not None}
    report: Any = at.admin.topics.tune(*topic.parts, body, kind=topic.kind)
    if at.as_json:
        show_json(report)
    else:
        show_report(report)
