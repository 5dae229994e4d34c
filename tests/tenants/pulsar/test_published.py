"""Every path and method of Pulsar's admin API: offered, or refused with a reason; and closed to strangers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import Resolver404, resolve

from controlplane.permissions import REST
from messaging.adminrpc.methods import TOPICS_STATS
from messaging.permissions.model import Action
from tenants.pulsar.published import PUBLISHED, published, why_not
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
REQUESTS = [(method, one.path) for one in PUBLISHED for method in one.methods]
_OPEN = (Action.PUBLIC, Action.AUTHENTICATED)


def _at(path: str, tenant: str) -> str:
    names = {"domain": "persistent", "tenant": tenant, "namespace": "orders", "topic": "t"}
    return "/admin/v2/" + re.sub(r"\{([^}]*)\}", lambda found: names.get(found[1], "x"), path)


def _action(method: str, path: str) -> Action | None:
    try:
        return REST.get((method, resolve(_at(path, "acme")).view_name))
    except Resolver404:
        return None


@pytest.fixture
def stranger(world: World) -> Caller:
    """By the token of an application of another tenant."""
    return Caller(world.token("app@other", tenant="other"))


def test_there_is_one_row_for_each_path() -> None:
    assert len({one.path for one in PUBLISHED}) == len(PUBLISHED) > 150
    assert all(why_not(one.path) for one in PUBLISHED)
    assert published("persistent/a/b/c/stats/") == published("non-persistent/a/b/c/stats") != published("odd/a/b/c/stats")


def test_what_is_not_offered_is_refused_alike_for_everybody(call: Call, stranger: Caller, world: World) -> None:
    """It says what to do instead, and nothing of what exists."""
    found = 0
    for method, path in REQUESTS:
        if _action(method, path) is None:
            found += 1
            for tenant in ("acme", "absent"):
                answers = [caller(method, _at(path, tenant)) for caller in (call, stranger)]
                assert [status(answer) in (405, 501) for answer in answers] == [True, True], (method, path)
                assert answers[0].json()["reason"] == answers[1].json()["reason"]
    assert found > 30
    assert not world.line.called(TOPICS_STATS)


def test_nothing_is_open_to_a_stranger(stranger: Caller, world: World) -> None:
    """Every offered method, of a tenant that exists and of one that does not: the same refusal, and no request to the broker."""
    before = len(world.line.calls)
    tried = 0
    for method, path in REQUESTS:
        action = _action(method, path)
        if action is None or action in _OPEN:
            continue
        tried += 1
        answers = [stranger(method, _at(path, tenant)) for tenant in ("acme", "absent")]
        assert {status(answer) for answer in answers} <= {401, 403}, (method, path, [answer.content for answer in answers])
        reasons = {answer.json()["reason"].replace("acme", "X").replace("absent", "X") for answer in answers}
        assert len(reasons) == 1, reasons
    assert tried > 200
    assert len(world.line.calls) == before
