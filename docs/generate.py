"""Generates the pages of docs/ that come from the sources: ``make docs``. A test fails if they are out of date."""

from __future__ import annotations

import io
import json
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from controlplane import permissions
from docs import admin_api_page, limits_page, sdk_reference_page
from docs.monitoring import dashboard, rules
from messaging import metrics, settings
from messaging.permissions import table
from messaging.permissions.audited import (
    BROKER_AUDITED,
    BROKER_DENIED,
    BROKER_RESTART,
    BROKER_SIGN_IN_FAILED,
    MORE,
)
from messaging.permissions.roles import BUILT_IN, OF_TENANT
from messaging.policies.dynamic import DYNAMIC
from messaging.policies.model import Level, Policy, range_text
from messaging.policies.pulsar_topics import SUBSCRIPTION_PATH, TOPIC_PATHS
from messaging.policies.registry import POLICIES

FOLDER = Path(__file__).resolve().parent
_NOTE = "<!-- Generated from {source} by `make docs`. Edit the source, not this page. -->\n\n"


def _comments_of_settings() -> tuple[dict[str, str], dict[str, str]]:
    """(field -> the comment on its line, field -> the heading comment above its group), read from the source."""
    lines = Path(settings.__file__).read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("class Settings"))
    stop = next(number for number, line in enumerate(lines[start:], start) if line.startswith("    def "))
    meanings: dict[str, str] = {}
    groups: dict[str, str] = {}
    group = ""
    for line in lines[start + 1 : stop]:
        text = line.strip()
        if text.startswith("# "):
            group = text[2:]
            continue
        name, colon, _ = text.partition(":")
        if not colon or not name.isidentifier():
            continue
        groups[name] = group
        tokens = tokenize.generate_tokens(io.StringIO(text + "\n").readline)
        meanings[name] = next((token.string[2:] for token in tokens if token.type == tokenize.COMMENT), "")
    return meanings, groups


def _type_of(hint: Any) -> str:
    """How a value is written, in words."""
    metadata = getattr(hint, "__metadata__", ())
    limits = metadata[0] if metadata else None
    base = get_args(hint)[0] if metadata else hint
    if get_origin(base) is tuple:
        return "list, separated by commas"
    if choices := [repr(choice).replace("'", "`") for choice in get_args(base)]:
        return " or ".join(choices)
    name = {bool: "true or false", int: "number", str: "text"}[base]
    if limits is not None:
        low, high = limits.ge, limits.le
        name += f", {low} to {high}" if high is not None else f", at least {low}"
    return name


def _default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "`~/.local/share/magnetar`, or below `XDG_DATA_HOME`"
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`" if value else "none"
    return f"`{value}`" if value != "" else "empty"


def configuration() -> str:
    meanings, groups = _comments_of_settings()
    hints = get_type_hints(settings.Settings, include_extras=True)
    page = _NOTE.format(source="messaging/settings.py") + (
        "# Configuration\n\n"
        "Settings come from the defaults, the TOML file that `MAGNETAR_CONFIG` names, the environment variables "
        "`MAGNETAR_<KEY IN CAPITALS>`, and the options of the command; later ones take precedence. The keys of the file are the "
        "names below, all at the top level.\n\n"
        "An unknown key, an unknown `MAGNETAR_*` variable or an invalid value is an error that names it, and nothing starts.\n\n"
        '```toml\n# magnetar.toml\nweb_port = 9080\ntls = "self-signed"\nsuperuser_roles = ["admin"]\n```\n'
    )
    last = ""
    for field in msgspec.structs.fields(settings.Settings):
        if groups[field.name] != last:
            last = groups[field.name]
            page += f"\n## {last}\n\n| key | default | value | meaning |\n| --- | --- | --- | --- |\n"
        meaning = meanings[field.name].replace("|", "\\|")
        page += f"| `{field.name}` | {_default_of(field)} | {_type_of(hints[field.name])} | {meaning} |\n"
    page += (
        "\n## Settings that change while the broker runs\n\n"
        "`pulsar-admin brokers update-dynamic-config --config NAME --value VALUE` sets one, by Pulsar's name, and "
        "`delete-dynamic-config` restores the configured value; superusers only. A value takes effect at once, comes before the "
        "configured one, and survives restarts. All others need a restart.\n\n| key | Pulsar's name |\n| --- | --- |\n"
    )
    return page + "".join(f"| `{key}` | `{name}` |\n" for name, key in sorted(DYNAMIC.items(), key=lambda pair: pair[1]))


def metrics_page() -> str:
    page = _NOTE.format(source="messaging/metrics.py") + (
        "# Metrics\n\n"
        "`GET /metrics` on the broker's WebSocket port and on the web process returns Prometheus's text format. Metrics whose "
        "labels name things of a tenant are returned only to superusers (send the token as `Authorization: Bearer`); everybody "
        "else sees totals.\n\n"
        "| metric | process | kind | unit | labels | visible to | meaning |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    )
    for metric in metrics.METRICS.values():
        labels = ", ".join(metric.labels) or "none"
        seen_by = "superusers" if metric.private else "everybody"
        kind = f"{metric.kind} | {metric.unit or 'none'}"
        page += f"| `{metric.name}` | {metric.process} | {kind} | {labels} | {seen_by} | {metric.meaning} |\n"
    return page


def permissions_page() -> str:
    page = _NOTE.format(source="messaging/permissions/ and controlplane.permissions") + (
        "# Permissions\n\n"
        "The permission that each command, path, route and page requires. It is checked in Pulsar's order: superuser, tenant "
        "administrator, role in the tenant, grant on the namespace, grant on the topic. To publish to a topic named "
        "`__change_events` superuser is required.\n\n"
        "Requests with a name in the last column are recorded in the audit log, and refused requests as `denied`: the role, the "
        "address, what was requested and, for changes, the state before and after.\n\n"
        f"Refused clients of the broker are recorded too: `{BROKER_SIGN_IN_FAILED}` for an invalid, revoked or expired token, "
        f"`{BROKER_DENIED}` for a missing permission. So are durable subscriptions that clients create, delete or seek, with the "
        "position before and after, but only if something changed. The broker counts identical events, and a task writes them "
        "every `audit_interval_s` with their number and the times of the first and the last. If there are too many different "
        f"ones, an action that ends in `{MORE}` says how many more there were. They are in the audit log of the tenant to which "
        "the topic or key belongs, or of the platform. A broker that stops keeps the events that were not written yet for its "
        f"next start; one that is killed loses them (`magnetar_audit_events_pending`); `{BROKER_RESTART}` records when this may "
        "have happened.\n\n"
    )
    page += (
        "## Roles\n\n"
        "Members of a tenant have one of these roles, or one that the tenant defines out of the same actions "
        "(`/api/v1/tenants/<tenant>/roles`): in the whole tenant, in a namespace, or for topics that match a pattern. Nobody "
        "gives a role that can do more than they can.\n\n"
        f"| action | {' | '.join(BUILT_IN)} |\n| --- |{' --- |' * len(BUILT_IN)}\n"
    )
    for action in OF_TENANT:
        marks = ("yes" if action in role.actions else "" for role in BUILT_IN.values())
        page += f"| `{action}` | {' | '.join(marks)} |\n"
    page += "\n" + "".join(f"- {role.name}: {role.description}\n" for role in BUILT_IN.values()) + "\n"
    rows: list[tuple[str, dict[str, str]]] = [
        ("Binary protocol", {name: action.value for name, action in table.BINARY.items()}),
        ("WebSocket", {name: action.value for name, action in table.WEBSOCKET.items()}),
        ("Broker HTTP", {name: action.value for name, action in table.BROKER_HTTP.items()}),
        ("REST", {f"{method} {route}": action.value for (method, route), action in sorted(permissions.REST.items())}),
        ("Console", {f"{method} {route}": action.value for (method, route), action in sorted(permissions.CONSOLE.items())}),
    ]
    audited = {f"{method} {route}": f"`{action}`" for (method, route), action in permissions.AUDITED.items()}
    audited |= {what: f"`{action}`" for what, action in BROKER_AUDITED.items()}
    for title, entries in rows:
        page += f"## {title}\n\n| request | required permission | recorded as |\n| --- | --- | --- |\n"
        page += "".join(f"| `{name}` | {action} | {audited.get(name, '')} |\n" for name, action in entries.items()) + "\n"
    return page.rstrip("\n") + "\n"


def _topic_path(policy: Policy) -> str:
    paths = [path.path for path in TOPIC_PATHS.values() if policy in path.policies]
    if Level.TOPIC in policy.levels:
        paths = paths or [policy.path]
    if Level.SUBSCRIPTION in policy.levels:
        paths.append(f"SUBSCRIPTION/{SUBSCRIPTION_PATH}")
    return ", ".join(f"`{path}`" for path in paths)


def _levels(policy: Policy) -> str:
    return ", ".join(policy.levels)


def policies_page() -> str:
    page = _NOTE.format(source="messaging/policies/") + (
        "# Policies\n\n"
        "Policies are set on a namespace, many also on a topic and a few on a subscription: over Pulsar's admin API "
        "(`pulsar-admin namespaces set-...`, `topicPolicies set-...`), over `/api/v1` or in the console. Superusers set them on a "
        "tenant too, for all its namespaces, over `/api/v1/tenants/TENANT/policies` or in the console. "
        "The nearest level that sets a policy wins, each policy by itself: the subscription, its topic, the namespace, the tenant, "
        "the broker's default, which may be a setting ([configuration](configuration.md)). A partitioned topic has policies for "
        "all its partitions. Policies of a topic end with it.\n\n"
        "Only enforced policies are accepted. Setting any other one returns 412 with the code `policy_not_enforced` and its name; "
        "reading it returns what Pulsar returns for an unset policy; removing it always works, for values that an earlier release "
        "stored.\n\n"
        "The path is relative to `/admin/v2/namespaces/TENANT/NAMESPACE/`, that of a topic to "
        "`/admin/v2/persistent/TENANT/NAMESPACE/TOPIC/`; the fields are the same. The name is the one that `/api/v1` uses.\n"
    )
    columns = "| name | values | unit | default | of | Pulsar's path | of a topic | field | meaning |\n" + "| --- " * 9 + "|\n"
    head = "\n## {}\n\n" + columns
    for title, enforced in (("Enforced", True), ("Not enforced yet", False)):
        page += head.format(title)
        for policy in POLICIES.values():
            if policy.enforced is enforced:
                default = f"setting `{policy.setting}`" if policy.setting else f"`{json.dumps(policy.default)}`"
                field = f"`{policy.field}`" if policy.field else ""
                page += (
                    f"| `{policy.name}` | {range_text(policy)} | {policy.unit} | {default} | {_levels(policy)} "
                    f"| {f'`{policy.path}`' if policy.path else ''} "
                    f"| {_topic_path(policy)} | {field} | {policy.meaning} |\n"
                )
    return page


PAGES: dict[str, Callable[[], str]] = {
    "admin-api.md": lambda: admin_api_page.page(_NOTE.format(source="tenants/pulsar/")),
    "configuration.md": configuration,
    "limits.md": lambda: limits_page.page(_NOTE.format(source="messaging/limits/")),
    "metrics.md": metrics_page,
    "permissions.md": permissions_page,
    "policies.md": policies_page,
    "sdk-reference.md": lambda: sdk_reference_page.page(_NOTE.format(source="messaging/client/")),
}
MONITORING: dict[str, Callable[[], str]] = {
    "magnetar.rules.yml": rules.rules,
    "magnetar.rules.test.yml": rules.tests,
    "prometheus.yml": rules.scraping,
    "magnetar-dashboard.json": dashboard.dashboard,
}


def main() -> int:
    pages = {f"docs/{name}": make for name, make in PAGES.items()}
    for name, make in (pages | {f"deploy/monitoring/{name}": make for name, make in MONITORING.items()}).items():
        path = FOLDER.parent / name
        text = make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
