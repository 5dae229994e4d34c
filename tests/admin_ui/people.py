"""The people, tenants and topics that every test of the console begins with."""

from __future__ import annotations

from functools import cache as once

from django.contrib.auth.hashers import make_password
from django.core.cache import cache

from tenants.access import actor_of_user
from tenants.actions import create_namespace, create_tenant, set_member
from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.scripted_live import live_row
from tests.support.worlds.recorded_rows import make_once

ORDERS = "acme/orders"
PLACED = "persistent://acme/orders/placed"
PASSWORD = "orbit-lantern-42"
PEOPLE = ("owner", "teammate", "stranger", "superuser")


@once
def stored_password() -> str:
    """Hashed once for all tests: it takes 40 ms on purpose, and four people have one."""
    return make_password(PASSWORD)


def populate(broker: ConsoleBroker) -> None:
    """The rows every test of the console begins with."""
    cache.clear()
    make_once("console", _make_rows)
    broker.set_rows(ORDERS, [live_row(PLACED, rate_in=12.0, rate_out=3.0, messages_in=40, backlog_entries=7, storage_bytes=2048)])


def _make_rows() -> None:
    superuser = User.objects.create(username="superuser", password=stored_password(), is_staff=True, is_superuser=True)
    for name in PEOPLE[:3]:
        User.objects.create(username=name, password=stored_password())
    admin = actor_of_user(superuser)
    for tenant in ("acme", "globex"):
        create_tenant(admin, tenant)
    for namespace in (ORDERS, "globex/edge"):
        create_namespace(admin, namespace)
    set_member(admin, "acme", "owner", "owner")
    set_member(admin, "acme", "teammate", "metadata")
    set_member(admin, "globex", "stranger", "owner")
