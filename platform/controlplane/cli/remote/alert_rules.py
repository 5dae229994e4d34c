"""Commands about alert rules: what is watched, silence, and what was said."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from controlplane.cli.remote.command import TENANT, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_one, show_rows


@click.group("alert-rules", cls=RemoteGroup)
def alert_rules() -> None:
    """Alert rules of a tenant."""


@alert_rules.command("list")
@TENANT
@remote
def rules_list(at: Remote, tenant: str) -> None:
    """List rules, and whether they fire."""
    columns = ("id", "name", "kind", "topic", "subscription", "value", "threshold", "firing", "silenced_until", "problem")
    show_rows(at.admin.alert_rules.each(at.tenant(tenant)), columns, as_json=at.as_json)


@alert_rules.command("create")
@click.argument("name")
@click.argument("kind")
@click.argument("topic")
@click.option("--subscription", default="", help="One of them. [default: any]")
@click.option("--threshold", type=int, required=True, help="It fires at this value.")
@click.option("--clear", type=int, help="It is over below this value. [default: the threshold]")
@click.option("--hold-s", type=int, default=0, help="For so many seconds the value must be there.")
@click.option("--runbook-url", default="", help="What whoever is told is to do.")
@TENANT
@remote
def rules_create(at: Remote, name: str, kind: str, topic: str, tenant: str, **given: Any) -> None:
    """Create a rule. TOPIC is a full name, or a pattern of names of one namespace, in which * stands for any characters."""
    body: Any = {"name": name, "kind": kind, "topic": topic}
    body |= {field: value for field, value in given.items() if value not in (None, "")}
    show_one(at.admin.alert_rules.create(at.tenant(tenant), body), as_json=at.as_json)


@alert_rules.command("delete")
@click.argument("rule")
@TENANT
@remote
def rules_delete(at: Remote, rule: str, tenant: str) -> None:
    """Delete a rule."""
    at.admin.alert_rules.delete(at.tenant(tenant), rule)


@alert_rules.command("silence")
@click.argument("rule")
@click.option("--for-s", type=click.IntRange(1), default=3_600, help="For so many seconds. [default: 3600]")
@click.option("--reason", default="", help="Is shown beside the rule.")
@TENANT
@remote
def rules_silence(at: Remote, rule: str, for_s: int, reason: str, tenant: str) -> None:
    """Write its notices and send none. If it fires at the end, that is sent."""
    body: Any = {"for_s": for_s, "reason": reason}
    show_one(at.admin.alert_rules.set_silence(at.tenant(tenant), rule, body), as_json=at.as_json)


@alert_rules.command("unsilence")
@click.argument("rule")
@TENANT
@remote
def rules_unsilence(at: Remote, rule: str, tenant: str) -> None:
    """End the silence."""
    show_one(at.admin.alert_rules.delete_silence(at.tenant(tenant), rule), as_json=at.as_json)


@alert_rules.command("history")
@click.argument("rule")
@click.option("--count", type=click.IntRange(1), default=20, help="How many, newest first. [default: 20]")
@TENANT
@remote
def rules_history(at: Remote, rule: str, count: int, tenant: str) -> None:
    """Show when it fired and was over."""
    rows = islice(at.admin.alert_rule_notices.each(at.tenant(tenant), rule), count)
    show_rows(rows, ("at", "kind", "title", "text", "delivered"), as_json=at.as_json)
