"""The control plane with two tenants and three people, and HTTP as any of them."""

from __future__ import annotations

import json
import time
from typing import Any

from django.conf import settings as django_settings
from django.test import Client

from messaging.adminrpc.feed import FeedVersion
from messaging.adminrpc.methods import FEED_APPLY
from messaging.identity import issue_token, read_secret
from messaging.permissions.model import Principal
from tenants import actions
from tenants.access import Actor, actor_of_user
from tenants.first_rows import create_first_rows
from tenants.models import Key, User
from tests.support.brokers.control_plane import Connected
from tests.support.passwords import passwords_hashed_once
from tests.support.worlds.recorded_rows import make_once


def _make_rows() -> None:
    with passwords_hashed_once():
        create_first_rows(django_settings.MAGNETAR)
    admin = actor_of_user(User.objects.get(username="admin"))
    for tenant, owner in (("acme", "olga"), ("other", "sam")):
        actions.create_tenant(admin, tenant)
        actions.set_member(admin, tenant, User.objects.create(username=owner).username, "owner")
    User.objects.create(username="tom")
    actions.set_member(_actor("olga"), "acme", "tom", "metadata")
    actions.create_namespace(_actor("olga"), "acme/orders")
    actions.create_namespace(_actor("sam"), "other/things")


def _actor(username: str) -> Actor:
    return actor_of_user(User.objects.get(username=username), "request-1")


class World:
    """The database after a first start, with tenants `acme` (namespace acme/orders) and `other` (other/things)."""

    def __init__(self, brokered: Connected) -> None:
        self.broker, self.line = brokered.broker, brokered.line
        make_once("tenants", _make_rows)
        self.admin = actor_of_user(User.objects.get(username="admin"))

    def ignore_feed(self) -> None:
        """Until the line is mended the broker does not get the changes that are pushed, and says what it holds."""
        self.line.divert(FEED_APPLY, lambda _: FeedVersion(version=self.broker.version))

    @property
    def superuser_token(self) -> str:
        return read_secret(django_settings.MAGNETAR, "superuser.token")

    def actor(self, username: str) -> Actor:
        return _actor(username)

    def actor_of_role(self, role: str) -> Actor:
        return Actor(Principal(role))

    def token(self, role: str, *, expires_s: int | None = None, tenant: str | None = "acme") -> str:
        """A token of a key that exists."""
        key = Key.unscoped.create(id=f"key-{Key.unscoped.count()}", name=role.partition("@")[0], role=role, tenant_id=tenant)
        return issue_token(django_settings.MAGNETAR, role, key.id, int(time.time()), expires_s)


class Caller:
    """HTTP as somebody: by a token, by a session of the console (with the CSRF token that a page would send), or as nobody."""

    def __init__(self, token: str = "", user: User | None = None) -> None:
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        self.headers: dict[str, str] = {"X-Forwarded-For": "192.0.2.7"}  # not over loopback
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        if user is not None:
            self.client.force_login(user)
            self.client.cookies["magnetar_csrf"] = "a" * 32
            self.headers["X-CSRFToken"] = "a" * 32

    def __call__(self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str) -> Any:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(method, path, data, content_type, headers={**self.headers, **headers})


def status(response: Any) -> int:
    """The status; a success without content has none, an error says why."""
    if response.status_code == 204:
        assert response.content == b""
        # A type on an answer without a body makes Pulsar's Java client wait for one for ever.
        assert "Content-Type" not in response.headers
    elif response.status_code >= 400:
        body = response.json()
        assert body["reason"]
        assert body["request_id"] == response.headers["X-Request-ID"]
    return int(response.status_code)
