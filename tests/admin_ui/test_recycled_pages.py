"""The page of deleted namespaces: what can be restored, and the two buttons."""

from __future__ import annotations

from tenants.access import platform_actor
from tenants.actions import create_tenant, set_policies, set_tenant_policies
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED
from tests.support.recycled_namespaces import recycled_namespace

BIN = "/tenants/acme/recycle-bin"


def test_a_namespace_is_deleted_seen_and_restored(broker: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    assert "Nothing to restore" in text(client, BIN) and f'href="{BIN}"' in text(client, "/tenants/acme")
    broker.real.add(PLACED, "s")
    assert "are deleted permanently." in text(client, f"{NAMESPACE}/delete")
    set_policies(platform_actor(), "acme/orders", {"recycle_bin_retention_hours": 2})
    assert "go to the recycle bin of the tenant, and are deleted permanently after 2 hours" in text(client, f"{NAMESPACE}/delete")
    done = client.post(f"{NAMESPACE}/delete", {"confirm": "acme/orders"}, follow=True)
    assert "in the recycle bin for 2 hours" in done.content.decode() and client.get(NAMESPACE).status_code == 404
    page = text(client, BIN)
    assert "acme/orders" in page and "user:owner" in page
    at = f"{BIN}/{page.partition('/recycle-bin/')[2].partition('/')[0]}"
    done = client.post(f"{at}/restore", follow=True)
    assert "Namespace acme/orders was restored" in done.content.decode() and PLACED in broker.topics
    assert "Nothing to restore" in text(client, BIN)
    assert client.post(f"{at}/restore").status_code == 404


def test_deleting_for_good_asks_for_the_name(broker: ConsoleBroker, browse: Browse) -> None:
    client = browse("owner")
    recycled_namespace(platform_actor(), "acme/gone", "x1")
    page = text(client, f"{BIN}/x1/delete")
    assert "cannot be restored after that" in page and "magnetar recycle-bin purge-namespace acme x1" in page
    client.post(f"{BIN}/x1/delete", {"confirm": "other"})
    assert "acme/gone" in text(client, BIN)
    assert client.post(f"{BIN}/x1/delete", {"confirm": "acme/gone"}).status_code == 302
    assert "Nothing to restore" in text(client, BIN)


def test_only_those_who_may_delete_namespaces_see_the_page(broker: ConsoleBroker, browse: Browse) -> None:
    recycled_namespace(platform_actor(), "acme/gone", "x1")
    assert browse("teammate").get(BIN).status_code == 403 and BIN not in text(browse("teammate"), "/tenants/acme")
    assert browse("stranger").get(BIN).status_code == 404


def test_a_tenant_is_deleted_seen_and_restored(broker: ConsoleBroker, browse: Browse) -> None:
    client = browse("superuser")
    create_tenant(platform_actor(), "brief")
    set_tenant_policies(platform_actor(), "brief", {"recycle_bin_retention_hours": 2})
    assert "Nothing to restore" in text(client, "/recycled-tenants") and 'href="/recycled-tenants"' in text(client, "/tenants")
    assert "goes to the recycle bin of the platform" in text(client, "/tenants/brief/delete")
    done = client.post("/tenants/brief/delete", {"confirm": "brief"}, follow=True)
    assert "in the recycle bin for 2 hours" in done.content.decode() and client.get("/tenants/brief").status_code == 404
    page = text(client, "/recycled-tenants")
    assert "brief" in page and "user:superuser" in page
    at = f"/recycled-tenants/{page.partition('/recycled-tenants/')[2].partition('/')[0]}"
    assert "magnetar recycle-bin purge-tenant" in text(client, f"{at}/delete")
    done = client.post(f"{at}/restore", follow=True)
    assert "Tenant brief was restored" in done.content.decode()
    assert browse("owner").get("/recycled-tenants").status_code == 403
