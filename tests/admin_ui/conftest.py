"""People, tenants and a broker for the tests of the console.

`owner` owns tenant acme, `teammate` is a member of it, `stranger` owns another tenant, `superuser` administers the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from tenants import broker
from tenants.models import User
from tests.admin_ui.fake_rpc import FakeBroker
from tests.admin_ui.people import populate


@pytest.fixture
def fake_broker() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    broker.use(fake)
    yield fake
    broker.use(None)


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
