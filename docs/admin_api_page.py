"""The page of Pulsar's admin API: which of its paths and methods are offered here, read from the routes of the web process."""

from __future__ import annotations

import re
from itertools import groupby

from controlplane.permissions import REST
from docs.web_process import load_routes
from messaging.policies.pulsar import PATHS
from messaging.policies.pulsar_topics import TOPIC_PATHS
from tenants.pulsar.published import NOTHING_INSTEAD, PUBLISHED, SERVICES, Published, why_not

_TITLES = {
    "{domain}": "Topics (`persistent` and `non-persistent`)",
    "namespaces": "Namespaces",
    "tenants": "Tenants",
    "schemas": "Schemas",
}


def page(note: str) -> str:
    load_routes()
    rows = sorted(PUBLISHED, key=lambda row: (list(_TITLES).index(_head(row)) if _head(row) in _TITLES else len(_TITLES), row))
    offered = {row: [method for method in row.methods if _is_offered(method, row.path)] for row in rows}
    total, ours = sum(len(row.methods) for row in rows), sum(map(len, offered.values()))
    text = note + (
        "# Pulsar's admin API\n\n"
        "The paths and methods below `/admin/v2` that Pulsar 4.0 has for tenants, namespaces, topics, schemas, clusters and "
        f"brokers, and whether they are offered: {ours} of {total}. One that is not is answered with 501 (or 405, if other methods "
        "of its path are offered) and a JSON object whose `reason` says what to do instead. The permission that each requires "
        "is in [permissions.md](permissions.md); topics take `persistent` or `non-persistent` as their domain. "
        "What is answered otherwise than by Pulsar is listed, command by command, in "
        "[tests/compat/admin](../tests/compat/admin/ours.toml). "
        "Below `/admin/v3`, functions, connectors, packages and transactions are answered as by a Pulsar that does not run them: "
        f"{' '.join(f'{service.status}: {service.why}.' for service in SERVICES)}\n"
    )
    for head, group in groupby(rows, key=_head):
        text += f"\n## {_TITLES.get(head, head.capitalize())}\n\n"
        text += "| path | offered | not offered | instead |\n| --- | --- | --- | --- |\n"
        for row in group:
            missing = [method for method in row.methods if method not in offered[row]]
            why = why_not(row.path) if missing else ""
            why = "" if why == NOTHING_INSTEAD else why
            if any(_is_refused(method, row.path) for method in missing):
                why = "answers 412: nothing here enforces the policy, which reads as unset ([policies.md](policies.md))"
            text += f"| `{row.path}` | {', '.join(offered[row])} | {', '.join(missing)} | {why} |\n"
    return text


def _head(row: Published) -> str:
    return row.path.partition("/")[0]


def _is_offered(method: str, path: str) -> bool:
    from django.urls import Resolver404, resolve

    try:
        match = resolve("/admin/v2/" + re.sub(r"\{[^}]*\}", "x", path.replace("{domain}", "persistent")))
    except Resolver404:
        return False
    return (method, match.view_name) in REST and not _is_refused(method, path)


def _is_refused(method: str, path: str) -> bool:
    """Whether it sets policies none of which is enforced: any value but the unset one is refused."""
    set_here = [
        policy_path
        for policy_path in (*PATHS.values(), *TOPIC_PATHS.values())
        if path.endswith(f"}}/{policy_path.path}") and method == policy_path.set_by
    ]
    return bool(set_here) and not any(policy.enforced for policy_path in set_here for policy in policy_path.policies)
