"""Which open sessions a change of rights touches."""

from __future__ import annotations

import gc
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from messaging.broker.core.clients.open_sessions import OpenSessions, admins_lost, grants_lost
from messaging.errors import MagnetarError
from messaging.permissions.model import Action, Principal, Resource

EVERYBODY = None


@dataclass
class ControlState:
    tenants: dict[str, dict[str, Any]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)


class Session:
    action = Action.PRODUCE

    def __init__(self, role: str, namespace: str) -> None:
        self.principal = Principal(role)
        self.resource = Resource(namespace.partition("/")[0], namespace, f"persistent://{namespace}/t")

    def end(self, error: MagnetarError) -> None: ...


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({}, {}, set()),
        (None, {"grants": {"a": ["produce"]}}, set()),
        ({"grants": {"a": ["produce"]}}, None, EVERYBODY),
        ({"tenant_uid": "1"}, {"tenant_uid": "2"}, EVERYBODY),
        ({"grants": {"a": ["produce"]}}, {"grants": {}}, {"a"}),
        ({"grants": {"a": ["produce", "consume"], "b": ["produce"]}}, {"grants": {"a": ["produce"], "b": ["produce"]}}, {"a"}),
        ({"grants": {"a": ["produce"]}}, {"grants": {"a": ["produce", "consume"]}, "policies": {"x": 1}}, set()),
        ({"topic_grants": {"t": {"a": ["produce"]}}}, {"topic_grants": {"u": {"a": ["produce"]}}}, {"a"}),
        ({}, {"subscription_roles": {"s": ["a"]}}, EVERYBODY),
        ({"subscription_roles": {"s": ["a", "b"]}}, {"subscription_roles": {"s": ["b"]}}, {"a"}),
        ({"subscription_roles": {"s": ["a"]}}, {"subscription_roles": {}}, set()),
        ({"policies": {}}, {"policies": {"subscription_auth_mode": "Prefix"}}, EVERYBODY),
        ({"policies": {"subscription_auth_mode": "Prefix"}}, {"policies": {"subscription_auth_mode": "Prefix"}}, set()),
        ({"policies": {"subscription_auth_mode": "Prefix"}}, {"policies": {"subscription_auth_mode": "None"}}, set()),
    ],
)
def test_roles_that_lost_grants_of_a_namespace_are_found(before: Any, after: Any, lost: Collection[str] | None) -> None:
    roles = grants_lost(before, after)
    assert (roles if roles is None else set(roles)) == lost


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"admin_roles": ["a", "b"]}, {"admin_roles": ["b", "c"]}, {"a"}),
        (None, {"admin_roles": ["a"]}, set()),
        ({"admin_roles": ["a"]}, None, EVERYBODY),
        ({"admin_roles": ["a"], "uid": "1"}, {"admin_roles": ["a"], "uid": "2"}, EVERYBODY),
    ],
)
def test_roles_that_administer_a_tenant_no_more_are_found(before: Any, after: Any, lost: Collection[str] | None) -> None:
    roles = admins_lost(before, after)
    assert (roles if roles is None else set(roles)) == lost


def test_a_change_finds_the_sessions_of_the_roles_that_lost() -> None:
    view = ControlState({"t": {"admin_roles": []}}, {"t/n": {"grants": {"a": ["produce"], "b": ["produce"]}}, "t/m": {}})
    sessions = OpenSessions(lambda: view)
    opened = [Session("a", "t/n"), Session("a", "t/n"), Session("b", "t/n"), Session("a", "t/m")]
    for session in opened:
        sessions.add(session)
    view.namespaces["t/n"] = {"grants": {"b": ["produce"]}}
    assert set(sessions.touched({("namespace", "t/n"), ("key", "t/n")})) == set(opened[:2])
    assert sessions.touched({("namespace", "t/n")}) == []  # that change was looked at
    del view.tenants["t"]
    assert set(sessions.touched({("tenant", "t")})) == set(opened)


def test_two_changes_before_anybody_looks_are_one() -> None:
    """The states compared are those that sessions were checked under, not the last two."""
    view = ControlState({}, {"t/n": {"grants": {"a": ["produce"]}}})
    sessions = OpenSessions(lambda: view)
    session = Session("a", "t/n")
    sessions.add(session)
    view.namespaces["t/n"] = {"grants": {}}
    view.namespaces["t/n"] = {"grants": {"b": ["produce"]}}
    later = Session("b", "t/n")
    sessions.add(later)
    assert sessions.touched({("namespace", "t/n")}) == [session]


def test_sessions_that_ended_leave_nothing() -> None:
    view = ControlState({}, {"t/n": {"grants": {"a": ["produce"]}}})
    sessions = OpenSessions(lambda: view)
    session = Session("a", "t/n")
    sessions.add(session)
    del session
    gc.collect()
    view.namespaces["t/n"] = {"grants": {}}
    assert sessions.touched({("namespace", "t/n")}) == []
    assert not sessions.counted_tenants
