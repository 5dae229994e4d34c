"""Pages of policies: of a namespace and of a topic, with times and sizes as people write them, and what a change would do."""

from __future__ import annotations

import pytest

from messaging.policies.model import Level
from messaging.policies.registry import ENFORCED
from tenants.models import AuditRecord, Namespace, Tenant, TopicPolicies
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import ORDERS

TOPIC = "persistent://acme/orders/placed"
PAGE = f"{NAMESPACE}/topics/placed/policies"


def test_a_topic_shows_where_each_value_comes_from(browse: Browse) -> None:
    Namespace.unscoped.filter(name=ORDERS).update(policies={"message_ttl_s": 604_800})
    client = browse("owner")
    assert client.post(PAGE, {"retention_time_min": "3d", "retention_size_mb": "10 GiB"}).status_code == 302
    assert TopicPolicies.unscoped.get(topic=TOPIC).policies == {"retention_time_min": 4_320, "retention_size_mb": 10_240}
    page = text(client, PAGE)
    assert page.count("<strong>this topic</strong>") == 2
    assert page.count('<td class="source wrap">the namespace</td>') == 1
    assert "after 7 d" in page and "for 3 d" in page and "up to 10 GiB" in page
    assert 'value="10 GiB"' in page and 'value="3 d"' in page, "what is shown can be sent again"
    assert client.post(PAGE, {"retention_time_min": "3 d", "retention_size_mb": "10 GiB"}).status_code == 302
    assert client.post(PAGE, {"retention_time_min": ""}).status_code == 302
    assert not TopicPolicies.unscoped.exists(), "emptied fields are unset"
    assert AuditRecord.unscoped.filter(action="topic.set_policies", resource=TOPIC).exists()


def test_a_topic_is_offered_only_what_topics_may_have(browse: Browse) -> None:
    page = text(browse("owner"), PAGE)
    for name, policy in ENFORCED.items():
        if Level.TOPIC not in policy.levels:
            assert f'name="{name}"' not in page
    assert 'name="message_ttl_s"' in page


@pytest.mark.parametrize("typed", ["soon", "7 parsecs", "-1", "10 GiB", "1" * 200])
def test_what_cannot_be_is_said_at_the_field(browse: Browse, typed: str) -> None:
    page = browse("owner").post(PAGE, {"message_ttl_s": typed}).content.decode()
    assert "id_message_ttl_s_error" in page
    assert not TopicPolicies.unscoped.exists()


@pytest.mark.parametrize("path", [PAGE, f"{NAMESPACE}/policies"])
def test_a_preview_says_what_would_happen_and_changes_nothing(browse: Browse, world: ConsoleBroker, path: str) -> None:
    page = browse("owner").post(path, {"max_producers_per_topic": "1", "preview": "yes"}).content.decode()
    assert "This change would do now" in page and "Nothing has been changed" in page
    assert 'value="1"' in page, "what was typed is still there"
    assert not TopicPolicies.unscoped.exists()
    assert Namespace.unscoped.get(name=ORDERS).policies == {}


def test_a_contradiction_is_said_by_preview_and_save_alike(browse: Browse) -> None:
    for more in ({}, {"preview": "yes"}):
        page = browse("owner").post(PAGE, {"retention_time_min": "0", "retention_size_mb": "5", **more}).content.decode()
        assert "Set both to 0" in page or "set both to 0" in page


def test_who_may_only_look_sees_no_form_and_strangers_see_nothing(browse: Browse) -> None:
    page = text(browse("teammate"), PAGE)
    assert "Effective policies" in page and 'name="message_ttl_s"' not in page
    assert browse("teammate").post(PAGE, {"message_ttl_s": "5"}).status_code == 403
    for method in ("get", "post"):
        assert getattr(browse("stranger"), method)(PAGE).status_code == 404
    assert not TopicPolicies.unscoped.exists()


def test_a_topic_that_does_not_exist_and_a_partition(browse: Browse) -> None:
    client = browse("owner")
    assert client.get(f"{NAMESPACE}/topics/missing/policies").status_code == 404
    sent = client.get(f"{NAMESPACE}/topics/placed-partition-0/policies")
    assert (sent.status_code, sent.headers["Location"]) == (302, PAGE)


def test_the_broker_is_away(browse: Browse, world: ConsoleBroker) -> None:
    world.cut("the broker was unplugged")
    assert "unplugged" in text(browse("owner"), PAGE)


TENANT = "/tenants/acme/policies"


def test_superusers_set_the_policies_of_a_tenant(browse: Browse) -> None:
    client = browse("superuser")
    assert 'href="/tenants/acme/policies"' in text(client, "/tenants/acme")
    page = text(client, TENANT)
    for name, policy in ENFORCED.items():
        if Level.TENANT not in policy.levels:
            assert f'name="{name}"' not in page
    assert client.post(TENANT, {"max_producers_per_tenant": "5", "message_ttl_s": "7d"}).status_code == 302
    assert Tenant.unscoped.get(name="acme").policies == {"max_producers_per_tenant": 5, "message_ttl_s": 604_800}
    page = text(client, TENANT)
    assert page.count("<strong>this tenant</strong>") == 2
    assert "after 7 d" in page and "the tenant" in text(browse("owner"), f"{NAMESPACE}/policies")
    assert "after 7 d" in text(browse("owner"), "/tenants/acme")
    assert AuditRecord.unscoped.filter(action="tenant.set_policies", resource="acme").exists()


def test_owners_see_the_policies_of_their_tenant_and_change_nothing(browse: Browse) -> None:
    page = text(browse("owner"), TENANT)
    assert "Effective policies" in page and 'name="message_ttl_s"' not in page
    assert browse("owner").post(TENANT, {"message_ttl_s": "5"}).status_code == 403
    for method in ("get", "post"):
        assert getattr(browse("stranger"), method)(TENANT).status_code == 404
    assert Tenant.unscoped.get(name="acme").policies == {}


def test_a_preview_for_a_tenant_changes_nothing(browse: Browse, world: ConsoleBroker) -> None:
    page = browse("superuser").post(TENANT, {"max_topics_per_tenant": "1", "preview": "yes"}).content.decode()
    assert "This change would do now" in page
    assert Tenant.unscoped.get(name="acme").policies == {}


@pytest.mark.parametrize("path", [PAGE, f"{NAMESPACE}/policies"])
def test_changes_are_listed_and_taken_back(browse: Browse, path: str) -> None:
    client = browse("owner")
    assert client.post(path, {"message_ttl_s": "7d"}).status_code == 302
    page = text(client, path)
    assert "not set → after 7 d" in page
    record = AuditRecord.unscoped.filter(action__endswith=".set_policies").latest("id").id
    assert f'name="undo" value="{record}"' in page
    assert client.post(path, {"undo": str(record)}).status_code == 302
    assert "after 7 d → not set" in text(client, path)
    again = client.post(path, {"undo": str(record)}).content.decode()
    assert "changed again since" in again
    teammate = text(browse("teammate"), path)
    assert "after 7 d" not in teammate and 'name="undo"' not in teammate
