"""What a stock client is refused, and does to subscriptions, is in the audit log of the tenant; nobody else reads it there."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

TOPIC = "persistent://audited/orders/t"
NAMESPACE = "/api/v1/tenants/audited/namespaces/orders"
LOG = "/api/v1/tenants/audited/audit"


def test_refusals_and_subscriptions_of_a_stock_client(standalone: Standalone, stock: Stock) -> None:
    admin = standalone.admin_token
    standalone.http("POST", "/api/v1/tenants", {"name": "audited"}, admin)
    standalone.http("POST", "/api/v1/tenants", {"name": "curious"}, admin)
    standalone.http("POST", "/api/v1/tenants/audited/namespaces", {"name": "orders"}, admin)
    tokens = {
        name: standalone.http("POST", f"/api/v1/tenants/{name.split('@')[1]}/keys", {"name": name.split("@")[0]}, admin).json()
        for name in ("app@audited", "gone@audited", "spy@curious")
    }
    standalone.http("PUT", f"{NAMESPACE}/permissions/app@audited", {"actions": ["consume"]}, admin)
    standalone.http("DELETE", f"/api/v1/tenants/audited/keys/{tokens['gone@audited']['id']}", None, admin)

    app = stock.client(tokens["app@audited"]["token"], operation_timeout_seconds=5)
    consumer = app.subscribe(TOPIC, "s")
    consumer.seek(pulsar.MessageId.earliest)
    app.subscribe(TOPIC, "short").unsubscribe()
    for client, refused in (("app@audited", pulsar.AuthorizationError), ("spy@curious", pulsar.AuthorizationError)):
        with pytest.raises(refused):
            stock.client(tokens[client]["token"], operation_timeout_seconds=5).create_producer(TOPIC)
    with pytest.raises(pulsar.PulsarException):
        stock.client(tokens["gone@audited"]["token"], operation_timeout_seconds=5).create_producer(TOPIC)

    def records() -> dict[tuple[str, str, str], Any]:
        items = standalone.http("GET", f"{LOG}?limit=200", None, admin).json()["items"]
        audited = {(item["action"], item["role"], item["resource"]): item for item in items}
        wanted = {
            ("subscription.create", "app@audited", f"{TOPIC}/s"),
            ("subscription.create", "app@audited", f"{TOPIC}/short"),
            ("subscription.seek", "app@audited", f"{TOPIC}/s"),
            ("subscription.delete", "app@audited", f"{TOPIC}/short"),
            ("broker.denied", "app@audited", TOPIC),
            ("broker.denied", "spy@curious", TOPIC),
            ("broker.sign_in_failed", "gone@audited", "audited"),
        }
        assert wanted <= set(audited), wanted - set(audited)
        return audited

    audited = eventually_sync(records, 60)
    denied = audited["broker.denied", "app@audited", TOPIC]
    assert (denied["address"], denied["key_id"]) == ("127.0.0.1", tokens["app@audited"]["id"])
    assert denied["after"]["why"] == "lacks produce" and denied["after"]["count"] >= 1
    assert audited["subscription.seek", "app@audited", f"{TOPIC}/s"]["before"]["position"]

    assert standalone.http("GET", LOG, None, tokens["app@audited"]["token"]).status == 404
    assert standalone.http("GET", LOG, None, tokens["spy@curious"]["token"]).status == 404
    assert standalone.http("GET", LOG, None, None).status == 401
