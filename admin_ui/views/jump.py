"""What the jump dialog finds."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse

from admin_ui.access import ConsoleRequest, page
from admin_ui.jump.finding import Finder
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.visible import visible_tenants

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
    words, here, namespace = (request.GET.get(name, "").replace("\x00", "") for name in ("q", "tenant", "namespace"))
    words = " ".join(words[:WORDS_LENGTH_MAX].lower().split())
    tenants = visible_tenants(request.actor)
    here = here if tenants.filter(name=here).exists() else ""
    finder = Finder(request, words, tenants, here, namespace if here else "")
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
