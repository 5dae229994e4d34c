"""People, tenants and a broker for the tests of the console.

`owner` owns tenant acme, `teammate` is a member of it, `stranger` owns another tenant, `superuser` administers the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from controlplane import audit
from controlplane.denials import Denials
from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker, console_broker
from tests.admin_ui.people import populate


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of refusals in the audit log: those of other tests in the same minute would leave none for this one."""
    monkeypatch.setattr(audit, "denials", Denials())


@pytest.fixture
def broker() -> Iterator[ConsoleBroker]:
    with console_broker() as line:
        yield line


@pytest.fixture
def world(db: None, broker: ConsoleBroker) -> ConsoleBroker:
    populate(broker)
    return broker


@pytest.fixture
def browse(world: ConsoleBroker) -> Callable[[str], Client]:
    """`browse("owner")`: HTTP as somebody signed in; `browse("")`: as nobody."""

    def make(username: str) -> Client:
        client = Client()
        if username:
            client.force_login(User.objects.get(username=username))
        return client

    return make
