"""Health, readiness and metrics of the web process."""

from __future__ import annotations

import resource
import sys

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.urls import path

from admin_ui.live.shared import live_watchers
from controlplane import audit, current, http_counters
from controlplane.backup import last as last_backup
from controlplane.middleware import requests_by_status
from controlplane.supervisor.status import running_state
from messaging.metrics import CONTENT_TYPE, Sample, exposition
from tenants import broker, feed
from tenants.http.views import route

app_name = "health"
CALLS_S = 2.0  # a call to the broker is to be begun by then


def _text(value: str, status: int = 200) -> HttpResponse:
    return HttpResponse(value + "\n", status=status, content_type="text/plain; charset=utf-8")


def live(request: HttpRequest) -> HttpResponse:
    """Requests are taken: `messaging.http_server.request_queue` has had a turn for this one as everybody has. Nothing else is
    checked, because a restart would fix nothing else."""
    return _text("ok")


def ready(request: HttpRequest) -> HttpResponse:
    """Requests are taken, calls to the broker are begun, and the database responds and has its tables. The broker itself may be
    unavailable: the console says so, and most of it works."""
    from tenants.models import FeedHead

    try:
        FeedHead.objects.filter(id=1).exists()
    except DatabaseError as error:
        connection.close()
        return _text(f"not ready: the database is not responding ({type(error).__name__})", 503)
    if not broker.takes_calls(CALLS_S):
        return _text(f"not ready: no call to the broker was begun for {CALLS_S:g} s", 503)
    return _text("ok")


def metrics(request: HttpRequest) -> HttpResponse:
    samples = [Sample("magnetar_web_requests_total", count, (str(status),)) for status, count in sorted(requests_by_status.items())]
    samples += [
        Sample("magnetar_web_audit_failures_total", audit.failures),
        Sample("magnetar_web_feed_version", feed.newest_version()),
        Sample("magnetar_resident_bytes", _resident_bytes()),
        Sample("magnetar_web_live_connections", live_watchers().count),
        *http_counters.samples(),
    ]
    state = running_state(current.settings().data_path)
    for child in state["children"] if state else ():
        if child["state"] != "done":
            samples.append(Sample("magnetar_child_up", float(child["state"] == "ready"), (child["name"],)))
            samples.append(Sample("magnetar_child_restarts_total", child["restarts"], (child["name"],)))
    backup = last_backup.read(current.settings().data_path)
    if backup is not None:
        samples.append(Sample("magnetar_last_backup_seconds", backup.moment_ms / 1000))
    return HttpResponse(exposition(samples, private=False), content_type=CONTENT_TYPE)


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


urlpatterns = [
    path("healthz", route(GET=live), name="live"),
    path("readyz", route(GET=ready), name="ready"),
    path("metrics", route(GET=metrics), name="metrics"),
    path("status.html", route(GET=live), name="status"),  # the path that Pulsar's load balancers check
]
