"""People, keys and a broker for the tests of the control plane.

`olga` owns tenant acme, `tom` is her teammate (a member), `sam` a stranger who owns another tenant. Tenancy tests ask them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane import audit
from controlplane.denials import Denials
from tenants import broker
from tenants.models import User
from tenants.pulsar.brokers import health
from tests.support.fake_broker import FakeBroker
from tests.tenants.world import Caller, World


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of refusals in the audit log."""
    monkeypatch.setattr(audit, "denials", Denials())


@pytest.fixture
def fake_broker() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    broker.use(fake)
    health.forget()
    yield fake
    broker.use(None)


@pytest.fixture
def world(db: None, fake_broker: FakeBroker) -> World:
    return World(fake_broker)


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
