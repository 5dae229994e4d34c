"""What the jump dialog finds."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse

from admin_ui.access import ConsoleRequest, page, visible_tenants
from admin_ui.jump.finding import Finder
from admin_ui.translation.texts import gettext, gettext_lazy

FOUND_MAX = 20
WORDS_LENGTH_MAX = 200
KINDS = {
    "page": gettext_lazy("page"),
    "action": gettext_lazy("action"),
    "view": gettext_lazy("view"),
    "policy": gettext_lazy("policy"),
    "tenant": gettext_lazy("tenant"),
    "namespace": gettext_lazy("namespace"),
    "topic": gettext_lazy("topic"),
    "subscription": gettext_lazy("subscription"),
    "key": gettext_lazy("key"),
    "person": gettext_lazy("person"),
    "docs": gettext_lazy("docs"),
}


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
        note = (
            gettext("{note} Showing the first {found_max} matches. Type more to narrow the search.")
            .format(note=note, found_max=FOUND_MAX)
            .strip()
        )
    elif not found:
        note = note or gettext("No matches.")
    shown = [{**entry, "kind": str(KINDS.get(entry["kind"], entry["kind"]))} for entry in found[:FOUND_MAX]]
    return JsonResponse({"found": shown, "note": note})
