"""The page of tasks: what runs, what ran, and the decisions about what was quarantined, which only administrators make."""

from __future__ import annotations

from datetime import UTC, datetime

from tenants.models import AuditRecord
from tests.admin_ui.pages import Browse, text
from workers.models import TaskRun
from workers.schedule import EXPIRE_MESSAGES, FORGET_OLD

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def ran(task_id: str, outcome: str, name: str = EXPIRE_MESSAGES, **fields: object) -> None:
    TaskRun.objects.create(task_id=task_id, name=name, started_at=NOW, outcome=outcome, **fields)


def test_runs_are_shown_with_what_they_did(browse: Browse) -> None:
    ran("r1", "succeeded", finished_at=NOW, summary={"expired_entries": 7, "failures": 0})
    ran("r2", "running", FORGET_OLD, progress={"looked_at": 41})
    page = text(browse("superuser"), "/tasks")
    assert "expired entries: 7" in page and "failures" not in page and "looked at: 41" in page
    assert "when asked for" in page or "every" in page
    assert "expired entries" not in text(browse("superuser"), "/tasks", outcome="failed")
    assert "expired entries" in text(browse("superuser"), "/tasks/detail", task=EXPIRE_MESSAGES)


def test_what_was_done_is_said_to_the_next_page_and_not_to_one_that_only_looks_again(browse: Browse) -> None:
    """Another tab that asked at the moment between a change and its page took the sentence, and nobody read it."""
    ran("r1", "quarantined", attempts=5, summary={"why": "ValueError: poison"})
    client = browse("superuser")
    client.post("/tasks/r1/decide", {"decision": "discard"})
    assert "was discarded" not in client.get("/now", headers={"HX-Request": "true"}).content.decode()
    assert "was discarded" in text(client, "/tasks")
    assert "was discarded" not in text(client, "/tasks")


def test_a_quarantined_task_is_requeued_or_discarded_and_the_audit_log_says_by_whom(browse: Browse) -> None:
    for task_id in ("r1", "r2"):
        ran(task_id, "quarantined", attempts=5, summary={"why": "ValueError: poison"})
    page = text(browse("superuser"), "/tasks")
    assert "ValueError: poison" in page and page.count('value="requeue"') == 2
    assert browse("owner").post("/tasks/r1/decide", {"decision": "requeue"}).status_code == 403
    for task_id, decision in (("r1", "requeue"), ("r2", "discard"), ("r2", "requeue")):
        assert browse("superuser").post(f"/tasks/{task_id}/decide", {"decision": decision}).status_code == 302
    assert browse("superuser").post("/tasks/r1/decide", {"decision": "nonsense"}).status_code == 404
    assert {run.task_id: run.outcome for run in TaskRun.objects.all()} == {"r1": "queued", "r2": "discarded"}
    actions = AuditRecord.unscoped.filter(action__startswith="task.").values_list("action", "role")
    assert sorted(actions) == [("task.discard", "user:superuser"), ("task.requeue", "user:superuser")]
