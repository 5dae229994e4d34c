"""Long changes over REST: who asks is told that they go on, where their progress is seen, and what they did is recorded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from messaging.adminrpc import calls
from messaging.broker.runtime.admin import changes
from tenants.models import AuditRecord
from tests.support.waiting import eventually_sync
from tests.tenants.world import Caller, World

N = "/api/v1/tenants/acme"


def test_a_deletion_of_many_partitions_goes_on_and_is_shown_to_its_tenant(
    world: World, caller: Callable[[str], Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = caller("olga")
    assert olga("PUT", "/admin/v2/persistent/acme/orders/p/partitions", 40).status_code == 204
    monkeypatch.setattr(changes, "ANSWER_S", 0)
    monkeypatch.setattr(calls, "CHANGE_S", 0)
    answer = olga("DELETE", "/admin/v2/persistent/acme/orders/p/partitions?force=true")
    assert answer.status_code == 503 and "/api/v1/tenants/acme/jobs/change-" in answer.json()["reason"]
    eventually_sync(lambda: olga("GET", f"{N}/changes").json()["items"][0]["state"] == "done")
    shown = olga("GET", f"{N}/changes").json()["items"][0]
    assert (shown["change"], shown["resource"]) == ("topics.delete", "persistent://acme/orders/p")
    assert shown["done"] == shown["partitions"] == 40
    assert olga("GET", "/admin/v2/persistent/acme/orders/p/partitioned-stats").status_code == 404
    assert AuditRecord.unscoped.filter(action="topic.delete").count() == 1
    assert caller("sam")("GET", f"{N}/changes").status_code == 404, "as if it did not exist"
    assert caller("sam")("GET", "/api/v1/tenants/other/changes").json() == {"items": []}
