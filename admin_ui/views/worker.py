"""Whether a worker runs tasks, for pages that show what one did: asked again every few seconds."""

from __future__ import annotations

from django.http import HttpResponse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import show
from admin_ui.worker_away import worker_away


@page
def worker_fragment(request: ConsoleRequest) -> HttpResponse:
    """Nothing, where `seen`, the second since when it is away, is as before."""
    state = worker_away(request.GET.get("of", ""))
    since = state.get("worker_away_since")
    if not state or request.GET.get("seen", "") == (str(int(since.timestamp())) if since else ""):
        return HttpResponse(status=204, headers={"Cache-Control": "no-store"})
    return show(request, "parts/worker_away.html", **state)
