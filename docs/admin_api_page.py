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
    rows = sorted(PUBLISHED, key=lambda one: (list(_TITLES).index(_head(one)) if _head(one) in _TITLES else len(_TITLES), one))
    offered = {one: [method for method in one.methods if _is_offered(method, one.path)] for one in rows}
    total, ours = sum(len(one.methods) for one in rows), sum(map(len, offered.values()))
    text = note + (
        "# Pulsar's admin API\n\n"
        "The paths and methods below `/admin/v2` that Pulsar 4.0 has for tenants, namespaces, topics, schemas, clusters and "
        f"brokers, and whether they are offered: {ours} of {total}. One that is not is answered with 501 (or 405, if other methods "
        "of its path are offered) and a JSON object whose `reason` says what to do instead. The permission that each requires "
        "is in [permissions.md](permissions.md); topics take `persistent` or `non-persistent` as their domain. "
        "What is answered otherwise than by Pulsar is listed, command by command, in "
        "[tests/compat/admin](../tests/compat/admin/ours.toml). "
        "Below `/admin/v3`, functions, connectors, packages and transactions are answered as by a Pulsar that does not run them: "
        f"{' '.join(f'{one.status}: {one.why}.' for one in SERVICES)}\n"
    )
    for head, group in groupby(rows, key=_head):
        text += f"\n## {_TITLES.get(head, head.capitalize())}\n\n"
        text += "| path | offered | not offered | instead |\n| --- | --- | --- | --- |\n"
        for one in group:
            missing = [method for method in one.methods if method not in offered[one]]
            why = why_not(one.path) if missing else ""
            why = "" if why == NOTHING_INSTEAD else why
            if any(_is_refused(method, one.path) for method in missing):
                why = "answers 412: nothing here enforces the policy, which reads as unset ([policies.md](policies.md))"
            text += f"| `{one.path}` | {', '.join(offered[one])} | {', '.join(missing)} | {why} |\n"
    return text


def _head(one: Published) -> str:
    return one.path.partition("/")[0]


def _is_offered(method: str, path: str) -> bool:
    from django.urls import Resolver404, resolve

    try:
        found = resolve("/admin/v2/" + re.sub(r"\{[^}]*\}", "x", path.replace("{domain}", "persistent")))
    except Resolver404:
        return False
    return (method, found.view_name) in REST and not _is_refused(method, path)


def _is_refused(method: str, path: str) -> bool:
    """Whether it sets policies none of which is enforced: any value but the unset one is refused."""
    set_here = [one for one in (*PATHS.values(), *TOPIC_PATHS.values()) if path.endswith(f"}}/{one.path}") and method == one.set_by]
    return bool(set_here) and not any(policy.enforced for one in set_here for policy in one.policies)
