"""People, keys and a broker for the tests of the control plane.

`olga` owns tenant acme, `tom` is her teammate (a member), `sam` a stranger who owns another tenant. Tenancy tests ask them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from controlplane import audit
from controlplane.denials import Denials
from tenants import maintenance_requests
from tenants.models import User
from tenants.pulsar.brokers import health
from tests.support.brokers.control_plane import Connected, connected
from tests.support.brokers.memory_broker import MemoryBroker
from tests.tenants.world import Caller, World


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of refusals in the audit log."""
    monkeypatch.setattr(audit, "denials", Denials())


@pytest.fixture(autouse=True)
def told_workers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What workers were asked to begin."""
    asked: list[str] = []
    for work in (maintenance_requests.COMPACTION, maintenance_requests.POLICY_EVENTS, maintenance_requests.ISSUER_KEYS):
        monkeypatch.setitem(maintenance_requests.begun_by, work, partial(asked.append, work))
    return asked


@pytest.fixture
def brokered() -> Iterator[Connected]:
    health.forget()
    with connected() as held:
        yield held


@pytest.fixture
def world(db: None, brokered: Connected) -> World:
    return World(brokered)


@pytest.fixture
def late() -> Iterator[MemoryBroker]:
    """Another broker, which the control plane does not call."""
    held = MemoryBroker()
    yield held
    held.stop()


@pytest.fixture
def call(world: World) -> Callable[..., Any]:
    """HTTP as the superuser, by token."""
    return Caller(world.superuser_token)


@pytest.fixture
def caller(world: World) -> Callable[[str], Caller]:
    """`caller("olga")`: HTTP as somebody signed in; `caller("")`: as nobody."""

    def make(username: str) -> Caller:
        return Caller(user=User.objects.get(username=username)) if username else Caller()

    return make
