"""The page of an audit stream: of a tenant and of the platform. Set, how far it is, what is wrong, tried again, stopped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from tenants.access import actor_of_user
from tenants.actions import set_custom_role, set_member
from tenants.models import AuditRecord, User
from tests.admin_ui.pages import Browse, text
from workers.audit_streams.models import AuditStream

URL = "https://siem.example/in"


@pytest.mark.parametrize(("person", "path", "tenant"), [("owner", "/tenants/acme/audit", "acme"), ("superuser", "/audit", "")])
def test_a_stream_from_its_beginning_to_its_end(browse: Browse, person: str, path: str, tenant: str) -> None:
    client = browse(person)
    assert f"{path}/stream" in text(client, path)
    assert "Send it to a webhook" in text(client, f"{path}/stream")
    assert "use https://host/path" in client.post(f"{path}/stream", {"url": "ftp://x"}).content.decode()
    assert client.post(f"{path}/stream", {"url": URL, "oldest": "on"}).status_code == 302
    stream = AuditStream.unscoped.get()
    assert (stream.tenant, stream.url, stream.sent_id) == (tenant, URL, 0)
    page = text(client, f"{path}/stream")
    assert "Sent up to record 0" in page and "has taken nothing yet" in page and stream.secret in page
    newest = AuditRecord.unscoped.latest("id").id
    later = datetime.now(UTC) + timedelta(hours=1)
    AuditStream.unscoped.update(sent_id=newest, sent_at=datetime.now(UTC), gaps=2)
    page = text(client, f"{path}/stream")
    assert "All sent" in page and "2 times" in page
    AuditStream.unscoped.update(failures=3, problem="the webhook answered 500", next_at=later)
    page = text(client, f"{path}/stream")
    assert "Failing" in page and "3 attempts failed" in page and "the webhook answered 500" in page
    assert client.post(f"{path}/stream", {"again": "yes"}).status_code == 302
    stream = AuditStream.unscoped.get()
    assert (stream.failures, stream.sent_id, stream.url) == (0, newest, URL) and stream.next_at < later
    assert client.post(f"{path}/stream/delete", {"confirm": "other"}).status_code == 200
    assert client.post(f"{path}/stream/delete", {"confirm": "siem.example"}).status_code == 302
    assert not AuditStream.unscoped.exists()
    assert client.get(f"{path}/stream/delete").status_code == 404
    assert client.post(f"{path}/stream", {"again": "yes"}).status_code == 404
    recorded = AuditRecord.unscoped.filter(action__startswith="audit_stream.").order_by("id").values_list("action", flat=True)
    assert list(recorded) == ["audit_stream.set", "audit_stream.set", "audit_stream.delete"]


def test_a_stream_to_a_topic(browse: Browse) -> None:
    owner, path, topic = browse("owner"), "/tenants/acme/audit/stream", "persistent://acme/orders/audit"
    assert owner.post(path, {"url": URL, "topic": topic}).status_code == 200
    assert owner.post(path, {"topic": "persistent://globex/edge/t"}).status_code == 200 and not AuditStream.unscoped.exists()
    assert owner.post(path, {"topic": topic}).status_code == 302
    page = text(owner, path)
    assert f"To {topic}" in page and "X-Magnetar-Signature" not in page and f'value="{topic}"' in page
    assert owner.post(path, {"again": "yes"}).status_code == 302
    assert AuditStream.unscoped.get().topic == topic
    assert f'"topic": "{topic}"' in unescape(text(owner, path, calls="yes", topic=topic))


def test_the_requests_follow_the_form(browse: Browse) -> None:
    page = text(browse("owner"), "/tenants/acme/audit/stream", calls="yes", url=URL, oldest="on")
    assert "admin.tenant_audit.set_stream(&#x27;acme&#x27;" in page and "from_oldest" in page
    assert "admin.audit.set_stream(" in text(browse("superuser"), "/audit/stream", calls="yes", url=URL)
    assert not AuditStream.unscoped.exists()


def test_who_may_not_read_the_log_does_not_send_it_elsewhere(browse: Browse) -> None:
    owner = actor_of_user(User.objects.get(username="owner"))
    set_custom_role(owner, "acme", "people", ["tenant_admin"])
    set_member(owner, "acme", "teammate", "people")
    browse("teammate").post("/tenants/acme/audit/stream", {"url": URL})
    assert not AuditStream.unscoped.exists()


def test_a_tenant_sees_nothing_of_other_streams(browse: Browse) -> None:
    browse("owner").post("/tenants/acme/audit/stream", {"url": URL})
    browse("superuser").post("/audit/stream", {"url": URL})
    assert "siem.example" not in text(browse("stranger"), "/tenants/globex/audit/stream")
    assert browse("stranger").get("/tenants/acme/audit/stream").status_code == 404
    assert browse("owner").get("/audit/stream").status_code == 403
