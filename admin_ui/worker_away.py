"""That no worker runs tasks, on the pages that show what one did or have a button for it, and what that means for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings as django_settings
from django.utils import timezone

from admin_ui.translation.texts import gettext_lazy
from messaging.settings import Settings
from workers.models import TaskRun
from workers.schedule import TASKS

QUIET_S_MIN = 10.0
_HISTORY = gettext_lazy(
    "Brokers keep their points until it is back, as far as they have room; charts end where the last ones were written down."
)
_AUDIT = gettext_lazy("What brokers did since then is missing here: they keep it until it is back.")
_STREAM = gettext_lazy("Nothing is streamed until it is back, and “Try now” waits for it; then streaming goes on where it ended.")
_USAGE = gettext_lazy("Usage is as it was computed last. “Compute now” waits until it is back. Brokers go on recording.")
_REDRIVES = gettext_lazy("Redrives stand still, and new ones wait, until it is back; then they go on where they ended.")
_ALERTS = gettext_lazy("Rules are not evaluated and notices, a test too, not sent until it is back: what is shown here is of then.")
_BILLS = gettext_lazy(
    "Usage, and so drafts, budgets and reports, is as it was computed last; all is computed anew once it is back."
)
_KEYS = gettext_lazy("When keys were last used is known up to then. Keys can be created and revoked as always.")
# By the name of the route.
MEANING: Mapping[str, str] = {
    **dict.fromkeys(("tenant_history", "namespace_history", "topic_history", "subscription_history"), _HISTORY),
    **dict.fromkeys(("audit", "platform_audit"), _AUDIT),
    **dict.fromkeys(("audit_stream", "platform_audit_stream"), _STREAM),
    **dict.fromkeys(("usage", "usage_runs", "usage_run", "usage_evidence"), _USAGE),
    **dict.fromkeys(("redrives", "redrive", "redrive_edited", "dead_letters"), _REDRIVES),
    **dict.fromkeys(("alerts", "alert_rule", "platform_alerts"), _ALERTS),
    **dict.fromkeys(("costs", "month_ahead", "budgets", "reports", "invoices", "invoice", "spend_caps"), _BILLS),
    **dict.fromkeys(("keys", "key"), _KEYS),
    "audit_chain": gettext_lazy("No head is signed and “Verify now” waits until it is back."),
    "token_issuers": gettext_lazy("Keys of issuers are not fetched until it is back: those that were fetched last count."),
    "topic_operations": gettext_lazy("“Compact” waits until it is back; the other operations are done at once."),
    "topic_compact": gettext_lazy("The topic is compacted once it is back."),
    "tasks": gettext_lazy("What was requeued or asked for is begun once it is back."),
}


def last_begun() -> TaskRun | None:
    """The run that a worker began last. One that waits was only asked for."""
    return TaskRun.objects.exclude(outcome=TaskRun.Outcome.QUEUED).order_by("-started_at").first()


def quiet() -> timedelta:
    """For how long no task begins at most while a worker works: with room, three times the shortest interval of the schedule."""
    settings: Settings = django_settings.MAGNETAR
    shortest_s = min(getattr(settings, entry.interval) for entry in TASKS if entry.interval)
    return timedelta(seconds=max(QUIET_S_MIN, 3 * shortest_s))


def away_since() -> datetime | None:
    """None: a worker runs tasks, or none has begun one yet."""
    run = last_begun()
    return run.started_at if run is not None and timezone.now() - run.started_at > quiet() else None


def worker_away(route: str) -> dict[str, Any]:
    """What `parts/worker_away.html` takes; nothing for a page that needs no worker."""
    meaning = MEANING.get(route)
    if meaning is None:
        return {}
    since = away_since()
    return {"worker_page": route, "worker_away_since": since, "worker_meaning": meaning if since else ""}
