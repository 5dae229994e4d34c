"""Every address of the web process that the permission table speaks of, with names filled in."""

from __future__ import annotations

from typing import Any

from django.urls import URLResolver, get_resolver

from controlplane.middleware import TABLED
from controlplane.permissions import REST

FILLING = {
    "tenant": "acme",
    "namespace": "orders",
    "domain": "persistent",
    "kind": "topics",
    "topic": "t",
    "bundle": "0xc0000000_0xffffffff",  # in which t lies
    "subscription": "s",
    "recycle_id": "x1",
    "role": "r",
    "cluster": "standalone",
    "group": "g",
    "policy": "p",
    "broker_id": "b1",
    "bookie": "b1:3181",
    "key_id": "k1",
    "username": "tom",
    "team": "payments",
    "issuer": "corp",
    "entries": "1",
    "seconds": "60",
    "timestamp": "1",
    "position": "1",
    "ledger": "1",
    "entry": "0",
    "version": "0",
    "message_id": "1:0",
    "key": "k",
    "value": "v",
    "invoice": "2026-000001",
    "line": "bytes_in@2026-03-01T00",
    "run_id": "r1",
    "job": "j1",
    "job_id": "redrive-j1",
    "rule": "a1",
    "notice": "n1",
    "invitation": "n1",
    "session": "1",
    "move": "1",
    "budget": "b1",
    "schedule": "s1",
    "report": "p1",
    "file": "report.csv",
    "name": "n",
}


def templates() -> list[tuple[str, str, str]]:
    """(method, path with its parameters as ``<converter:name>``, action) of every row that is not public."""
    routes = []

    def walk(patterns: list[Any], prefix: str, namespace: str) -> None:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, prefix + str(pattern.pattern), pattern.namespace or namespace)
            elif namespace in TABLED:
                for method in pattern.callback.methods:
                    action = REST[(method, f"{namespace}:{pattern.name}")]
                    if action != "public":
                        routes.append((method, f"/{prefix}{pattern.pattern}", str(action)))

    walk(get_resolver().url_patterns, "", "")
    return routes


def addresses() -> list[tuple[str, str, str]]:
    """(method, path, action) of every row that is not public."""
    routes = []
    for method, path, action in templates():
        for name, value in FILLING.items():
            for converter in ("segment", "path", "domain", "kind", "cluster"):
                path = path.replace(f"<{converter}:{name}>", value)
        assert "<" not in path
        routes.append((method, path, action))
    return routes
