"""Each process of ours may make the calls on its list, every call is on a list, and nothing else is answered."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import messaging
from messaging.adminrpc import methods
from messaging.adminrpc.base import Method, Request
from messaging.adminrpc.callers import CALLS, FEED_PAGE, OF_BACKUPS, TASKS, callers_of, require_call
from messaging.adminrpc.methods import CHANGES_OUTCOME, METHODS, TOPICS_DELETE
from messaging.errors import NotAuthorized
from messaging.identity.service import SERVICE_NAMES
from messaging.permissions.model import Principal
from tests.support.brokers.memory_broker import MemoryBroker

SOURCES = Path(messaging.__file__).parent.parent
NAMES = {name: method.name for name, method in vars(methods).items() if isinstance(method, Method)}


def used_in(folder: str) -> set[str]:
    """Methods that modules below `folder` name."""
    return {
        NAMES[alias.name]
        for path in (SOURCES / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "messaging.adminrpc.methods"
        for alias in node.names
        if alias.name in NAMES
    }


def test_every_call_is_on_a_list_and_every_list_is_of_a_process() -> None:
    assert frozenset[str]().union(*CALLS.values()) == {*METHODS, FEED_PAGE}
    assert CALLS.keys() == set(SERVICE_NAMES)
    assert METHODS.keys() >= TASKS


def test_the_list_of_a_process_has_what_its_code_calls() -> None:
    assert used_in("workers/tasks") <= CALLS["worker"]
    assert used_in("tenants") | used_in("admin_ui") <= CALLS["web"]
    assert used_in("workers") <= CALLS["worker"] | CALLS["web"]


def test_who_may_begin_a_long_change_may_ask_how_it_ended() -> None:
    for name, calls in CALLS.items():
        if any(METHODS[call].long_change for call in calls & METHODS.keys()):
            assert CHANGES_OUTCOME.name in calls, name


@pytest.mark.parametrize("name", SERVICE_NAMES)
def test_a_process_is_refused_every_method_that_is_not_on_its_list(name: str) -> None:
    broker = MemoryBroker(identity=name)
    try:
        refused = set()
        for method in METHODS.values():
            if method.name in CALLS[name]:
                require_call(Principal(f"service:{name}", service=True), method.name)
                continue
            with pytest.raises(NotAuthorized, match=f"service:{name} may not call {method.name}: only "):
                broker.perform(method, Request())  # not even its body is read
            refused.add(method.name)
        assert refused == METHODS.keys() - CALLS[name]
        assert refused
    finally:
        broker.stop()


def test_only_the_command_line_holds_brokers_for_a_backup() -> None:
    assert {name for name, calls in CALLS.items() if calls & OF_BACKUPS} == {"cli"}


def test_a_stranger_is_on_no_list() -> None:
    with pytest.raises(NotAuthorized, match="only web and broker may"):
        require_call(Principal("service:backup", service=True), TOPICS_DELETE.name)
    assert callers_of(FEED_PAGE) == ["broker"]
