"""People, tenants and a broker for the tests of the console.

`owner` owns tenant acme, `teammate` is a member of it, `stranger` owns another tenant, `superuser` administers the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core.cache import cache
from django.test import Client

from tenants import broker
from tenants.access import actor_of_user
from tenants.actions import create_namespace, create_tenant, set_member
from tenants.models import User
from tests.admin_ui.fake_rpc import FakeBroker, live_row

ORDERS = "acme/orders"
PLACED = "persistent://acme/orders/placed"
PASSWORD = "orbit-lantern-42"
PEOPLE = ("owner", "teammate", "stranger", "superuser")


@pytest.fixture
def fake_broker() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    broker.use(fake)
    yield fake
    broker.use(None)


def populate(fake: FakeBroker) -> None:
    """The rows every test of the console begins with."""
    cache.clear()
    superuser = User.objects.create_superuser("superuser", password=PASSWORD)
    for name in PEOPLE[:3]:
        User.objects.create_user(name, password=PASSWORD)
    admin = actor_of_user(superuser)
    for tenant in ("acme", "globex"):
        create_tenant(admin, tenant)
    for namespace in (ORDERS, "globex/edge"):
        create_namespace(admin, namespace)
    set_member(admin, "acme", "owner", "owner")
    set_member(admin, "acme", "teammate", "member")
    set_member(admin, "globex", "stranger", "owner")
    fake.set_rows(ORDERS, [live_row(PLACED, rate_in=12.0, rate_out=3.0, messages_in=40, backlog_entries=7, storage_bytes=2048)])


@pytest.fixture
def world(db: None, fake_broker: FakeBroker) -> FakeBroker:
    populate(fake_broker)
    return fake_broker


@pytest.fixture
def browse(world: FakeBroker) -> Callable[[str], Client]:
    """`browse("owner")`: HTTP as somebody signed in; `browse("")`: as nobody."""

    def make(username: str) -> Client:
        client = Client()
        if username:
            client.force_login(User.objects.get(username=username))
        return client

    return make
