"""Pages of policies: of a namespace and of a topic, with times and sizes as people write them, and what a change would do."""

from __future__ import annotations

import html
import json
import re
import time
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from messaging.history.points import HOUR_MS, MINUTE_MS
from messaging.policies.groups import SUBJECTS
from messaging.policies.model import Level
from tenants.access import platform_actor
from tenants.actions import set_policies
from tenants.models import AuditRecord, DynamicSetting, Namespace, Tenant, TopicPolicies
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import ORDERS
from tests.support.told_history import minutes, tell

TOPIC = "persistent://acme/orders/placed"
PAGE = f"{NAMESPACE}/topics/placed/policies"
TENANT = "/tenants/acme/policies"


def save(client: Client, path: str, subject: str, before: dict[str, Any] | None = None, **fields: Any) -> HttpResponse:
    """Sends the panel of a subject. `before`: what it showed; None: what is set now."""
    if before is None and client.get(path, {"policy": subject}).status_code == 200:
        page = client.get(path, {"policy": subject}).content.decode()
        shown = re.search(r'name="before" value="([^"]*)"', page)
        before = json.loads(html.unescape(shown[1])) if shown else {}
    answer: HttpResponse = client.post(f"{path}?policy={subject}", {"before": json.dumps(before), **fields})  # type: ignore[assignment]
    return answer


def test_a_topic_shows_where_each_value_comes_from(browse: Browse) -> None:
    Namespace.unscoped.filter(name=ORDERS).update(policies={"message_ttl_s": 604_800})
    client = browse("owner")
    retention: dict[str, Any] = {"retention_time_min": "3d", "retention_size_mb": "10 GiB"}
    assert save(client, PAGE, "retention", **retention).status_code == 302
    assert TopicPolicies.unscoped.get(topic=TOPIC).policies == {"retention_time_min": 4_320, "retention_size_mb": 10_240}
    page = text(client, PAGE)
    assert page.count("<strong>this topic</strong>") == 2, "first of all, and in its group"
    assert page.count('<td class="source wrap">the namespace</td>') == 1
    assert "after 7 d" in page and "for 3 d" in page and "up to 10 GiB" in page
    panel = text(client, PAGE, policy="retention")
    assert 'value="10 GiB"' in panel and 'value="3 d"' in panel, "what is shown can be sent again"
    assert save(client, PAGE, "retention", retention_time_min="3 d", retention_size_mb="10 GiB").status_code == 302
    assert save(client, PAGE, "retention", retention_time_min="").status_code == 302
    assert not TopicPolicies.unscoped.exists(), "emptied fields are unset"
    assert AuditRecord.unscoped.filter(action="topic.set_policies", resource=TOPIC).exists()


@pytest.mark.parametrize("level", [Level.TOPIC, Level.NAMESPACE, Level.TENANT])
def test_each_policy_is_offered_where_it_may_be_set_and_nowhere_else(browse: Browse, level: Level) -> None:
    path = {Level.TOPIC: PAGE, Level.NAMESPACE: f"{NAMESPACE}/policies", Level.TENANT: TENANT}[level]
    client = browse("superuser")
    listed = text(client, path)
    assert 'name="before"' not in listed, "a form only where one policy was chosen"
    for subject in SUBJECTS.values():
        panel = text(client, path, policy=subject.name)
        for policy in subject.policies:
            assert (f'name="{policy.name}"' in panel) is (level in policy.levels), (policy.name, level)


@pytest.mark.parametrize("asked", [{}, {"q": "ttl"}, {"policy": "retention"}])
def test_the_defaults_are_read_once_a_page(browse: Browse, asked: dict[str, str]) -> None:
    client = browse("owner")
    with CaptureQueriesContext(connection) as queries:
        text(client, PAGE, **asked)
    assert sum(DynamicSetting._meta.db_table in query["sql"] for query in queries.captured_queries) == 1


@pytest.mark.parametrize("typed", ["soon", "7 parsecs", "-1", "10 GiB", "1" * 200])
def test_what_cannot_be_is_said_at_the_field_which_has_the_focus(browse: Browse, typed: str) -> None:
    page = save(browse("owner"), PAGE, "message_ttl_s", message_ttl_s=typed).content.decode()
    assert "id_message_ttl_s_error" in page and "autofocus" in page
    assert not TopicPolicies.unscoped.exists()


@pytest.mark.parametrize("path", [PAGE, f"{NAMESPACE}/policies"])
def test_a_preview_says_what_would_happen_and_changes_nothing(browse: Browse, world: ConsoleBroker, path: str) -> None:
    answer = save(browse("owner"), path, "max_producers_per_topic", max_producers_per_topic="1", preview="yes")
    page = answer.content.decode()
    assert "This change would do now" in page and "Nothing has been changed" in page
    assert 'value="1"' in page, "what was typed is still there"
    assert not TopicPolicies.unscoped.exists()
    assert Namespace.unscoped.get(name=ORDERS).policies == {}


def test_a_preview_says_what_a_rate_would_have_done_also_while_the_broker_is_away(browse: Browse, world: ConsoleBroker) -> None:
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 3 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    points = [each for at in (("", ""), (ORDERS, ""), (ORDERS, TOPIC)) for each in minutes(uid, *at, "", begin_ms, 60)]
    tell(points, [(begin_ms, begin_ms + 90 * MINUTE_MS)], 1)
    client = browse("owner")
    typed: dict[str, Any] = {"publish_rate_messages": "8", "preview": "yes", "span": "24h"}
    page = " ".join(save(client, PAGE, "publish_rate", **typed).content.decode().split())
    assert "In the last 24 hours it would have" in page and "held producers for at least 1 h" in page
    assert "The limit would be 8.0/s; the highest seen was 20/s." in page and "Of that time 1 h 30 min are known." in page
    calm = save(client, PAGE, "publish_rate", **{**typed, "publish_rate_messages": "20", "span": "7d"}).content.decode()
    assert "In the last 7 days it would have" in calm and "done nothing." in calm
    assert '<option value="7d" selected>' in calm, "the span stays"
    compaction: dict[str, Any] = {"compaction_threshold_bytes": "1 MiB", "preview": "yes"}
    unknown = save(client, f"{NAMESPACE}/policies", "compaction_threshold_bytes", **compaction).content.decode()
    assert "unknown. History does not record what it limits." in unknown
    world.cut()
    away = save(client, f"{NAMESPACE}/policies", "publish_rate", before={}, **typed).content.decode()
    assert "What it would do now is unknown" in away and "held producers for at least 1 h" in away
    world.mend()
    german = client.post(f"{PAGE}?policy=publish_rate", {"before": "{}", **typed}, headers={"Accept-Language": "de"})
    assert "In den letzten 24 Stunden" in german.content.decode()


def test_an_owner_sets_what_is_masked_in_the_tenant_and_nothing_else(browse: Browse) -> None:
    owner = browse("owner")
    assert save(owner, TENANT, "masked_fields", masked_fields="key\n$..card").status_code == 302
    assert Tenant.unscoped.get(name="acme").policies == {"masked_fields": ["key", "$..card"]}
    assert 'name="before"' not in text(owner, TENANT, policy="retention")
    typed: dict[str, Any] = {"retention_time_min": "3d", "retention_size_mb": "10 GiB"}
    save(owner, TENANT, "retention", before={}, **typed)
    assert Tenant.unscoped.get(name="acme").policies == {"masked_fields": ["key", "$..card"]}
    (record,) = AuditRecord.unscoped.filter(action="tenant.set_policies")
    owner.post(TENANT, {"undo": record.id})
    assert Tenant.unscoped.get(name="acme").policies == {}
    refused = save(browse("teammate"), TENANT, "masked_fields", before={}, masked_fields="key")
    assert refused.status_code in (403, 404) and Tenant.unscoped.get(name="acme").policies == {}


def test_a_contradiction_is_said_by_preview_and_save_alike(browse: Browse) -> None:
    for button in ("save", "preview"):
        typed: dict[str, Any] = {"retention_time_min": "0", "retention_size_mb": "5", button: "yes"}
        answer = save(browse("owner"), PAGE, "retention", **typed)
        page = answer.content.decode()
        assert "Set both to 0" in page or "set both to 0" in page


def test_a_panel_saves_its_own_policy_and_leaves_what_others_set(browse: Browse) -> None:
    path = f"{NAMESPACE}/policies"
    Namespace.unscoped.filter(name=ORDERS).update(policies={"deduplication": True, "properties": {"team": "a"}})
    client = browse("owner")
    assert save(client, path, "subscription_types", subscription_types=["Shared", "Failover"]).status_code == 302
    properties = "team=payments\ncost = 7"
    assert save(client, path, "properties", before={"properties": {"team": "a"}}, properties=properties).status_code == 302
    assert Namespace.unscoped.get(name=ORDERS).policies == {
        "deduplication": True,
        "subscription_types": ["Shared", "Failover"],
        "properties": {"team": "payments", "cost": "7"},
    }
    assert "team=payments\ncost=7" in text(client, path, policy="properties")
    assert "is not like team=payments" in save(client, path, "properties", properties="team").content.decode()
    assert save(client, path, "subscription_types", before={"subscription_types": ["Shared", "Failover"]}).status_code == 302
    assert "subscription_types" not in Namespace.unscoped.get(name=ORDERS).policies, "nothing is chosen"


def test_what_somebody_else_changed_meanwhile_is_not_overwritten_unseen(browse: Browse) -> None:
    path = f"{NAMESPACE}/policies"
    client = browse("owner")
    set_policies(platform_actor(), ORDERS, {"message_ttl_s": 60, "deduplication": True})
    page = save(client, path, "message_ttl_s", before={}, message_ttl_s="7d").content.decode()
    assert "message_ttl_s was changed again since" in page.lower() and 'value="7d"' in page
    assert Namespace.unscoped.get(name=ORDERS).policies["message_ttl_s"] == 60
    seen = html.unescape(re.search(r'name="before" value="([^"]*)"', page)[1])  # type: ignore[index]
    assert json.loads(seen) == {"message_ttl_s": 60}, "that is what was seen now"
    assert save(client, path, "message_ttl_s", before={"message_ttl_s": 60}, message_ttl_s="7d").status_code == 302
    assert Namespace.unscoped.get(name=ORDERS).policies == {"message_ttl_s": 604_800, "deduplication": True}
    assert "changed again since" in save(client, path, "message_ttl_s", before={"message_ttl_s": 60}, inherit="y").content.decode()
    assert save(client, path, "message_ttl_s", before={"message_ttl_s": 604_800}, inherit="yes").status_code == 302
    assert Namespace.unscoped.get(name=ORDERS).policies == {"deduplication": True}


@pytest.mark.parametrize("before", ["", "[]", "{", "[" * 20_000, "{}" * 40_000])
def test_a_form_that_does_not_say_what_was_seen_changes_nothing(browse: Browse, before: str) -> None:
    answer = browse("owner").post(f"{PAGE}?policy=message_ttl_s", {"message_ttl_s": "60", "before": before})
    assert answer.status_code == 200 and not TopicPolicies.unscoped.exists()


def test_policies_are_found_by_name_meaning_and_value(browse: Browse) -> None:
    Namespace.unscoped.filter(name=ORDERS).update(policies={"message_ttl_s": 604_800})
    client = browse("teammate")
    path = f"{NAMESPACE}/policies"
    for words in ("TTL", "messagettl", "acknowledged automatically", "7 d", "message_ttl_s"):
        page = text(client, path, q=words)
        assert ">Message TTL</a>" in page and ">Encryption required</a>" not in page, words
    assert "No policy matches" in text(client, path, q="nonesuch")
    assert "&lt;b&gt;" in text(client, path, q="<b>")


def test_the_calls_below_a_panel_follow_it(browse: Browse) -> None:
    page = text(browse("owner"), PAGE, policy="message_ttl_s", calls="yes", before="{}", message_ttl_s="1h")
    assert "magnetar policies set acme/orders/placed message_ttl_s=3600" in html.unescape(page)


def test_who_may_only_look_sees_no_form_and_strangers_see_nothing(browse: Browse) -> None:
    page = text(browse("teammate"), PAGE)
    assert "Nothing is set here" in page
    panel = text(browse("teammate"), PAGE, policy="message_ttl_s")
    assert "acknowledged automatically" in panel and "broker default" in panel and 'name="message_ttl_s"' not in panel
    assert save(browse("teammate"), PAGE, "message_ttl_s", message_ttl_s="5").status_code == 403
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


def test_superusers_set_the_policies_of_a_tenant(browse: Browse) -> None:
    client = browse("superuser")
    assert 'href="/tenants/acme/policies"' in text(client, "/tenants/acme")
    assert save(client, TENANT, "max_producers_per_tenant", max_producers_per_tenant="5").status_code == 302
    assert save(client, TENANT, "message_ttl_s", message_ttl_s="7d").status_code == 302
    assert Tenant.unscoped.get(name="acme").policies == {"max_producers_per_tenant": 5, "message_ttl_s": 604_800}
    page = text(client, TENANT)
    assert page.count("<strong>this tenant</strong>") == 4
    assert "after 7 d" in page and "the tenant" in text(browse("owner"), f"{NAMESPACE}/policies")
    assert "after 7 d" in text(browse("owner"), "/tenants/acme")
    assert AuditRecord.unscoped.filter(action="tenant.set_policies", resource="acme").exists()


def test_owners_see_the_policies_of_their_tenant_and_change_none_that_limits_it(browse: Browse) -> None:
    page = text(browse("owner"), TENANT, policy="message_ttl_s")
    assert "acknowledged automatically" in page and 'name="message_ttl_s"' not in page
    assert save(browse("owner"), TENANT, "message_ttl_s", message_ttl_s="5").status_code == 403
    for method in ("get", "post"):
        assert getattr(browse("stranger"), method)(TENANT).status_code == 404
    assert Tenant.unscoped.get(name="acme").policies == {}


def test_a_preview_for_a_tenant_changes_nothing(browse: Browse, world: ConsoleBroker) -> None:
    answer = save(browse("superuser"), TENANT, "max_topics_per_tenant", max_topics_per_tenant="1", preview="yes")
    assert "This change would do now" in answer.content.decode()
    assert Tenant.unscoped.get(name="acme").policies == {}


@pytest.mark.parametrize("path", [PAGE, f"{NAMESPACE}/policies"])
def test_changes_are_listed_and_taken_back(browse: Browse, path: str) -> None:
    client = browse("owner")
    assert save(client, path, "message_ttl_s", message_ttl_s="7d").status_code == 302
    page = text(client, path)
    assert "not set → after 7 d" in page
    assert "not set → after 7 d" in text(client, path, policy="message_ttl_s")
    assert "not set → after 7 d" not in text(client, path, policy="retention")
    record = AuditRecord.unscoped.filter(action__endswith=".set_policies").latest("id").id
    assert f'name="undo" value="{record}"' in page
    assert client.post(path, {"undo": str(record)}).status_code == 302
    assert "after 7 d → not set" in text(client, path)
    again = client.post(f"{path}?policy=message_ttl_s", {"undo": str(record)}, follow=True).content.decode()
    assert "changed again since" in again
    teammate = text(browse("teammate"), path)
    assert "after 7 d" not in teammate and 'name="undo"' not in teammate
