"""What the jump dialog finds."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse

from admin_ui.access import ConsoleRequest, page, visible_tenants
from admin_ui.jump.finding import Finder

FOUND_MAX = 20
WORDS_LENGTH_MAX = 200


@page
def jump(request: ConsoleRequest) -> HttpResponse:
    words = " ".join(request.GET.get("q", "")[:WORDS_LENGTH_MAX].lower().split())
    tenants = visible_tenants(request.actor, request.user)
    here = request.GET.get("tenant", "")
    here = here if here in tenants else ""
    finder = Finder(request, words, tenants, here, request.GET.get("namespace", "") if here else "")
    found = finder.found(FOUND_MAX)
    note = " ".join(finder.notes)
    if len(found) > FOUND_MAX:
        note = f"{note} Showing the first {FOUND_MAX} matches. Type more to narrow the search.".strip()
    elif not found:
        note = note or "No matches."
    return JsonResponse({"found": found[:FOUND_MAX], "note": note})
