"""The most urgent problem of each namespace, for the list of them: asked for by the page, so that it waits for no broker."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.now.visible_scope import scope_within
from admin_ui.pages import sentence
from admin_ui.topic_stats import mark_state
from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.problems.kinds import MARKS


@page
def namespace_marks(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """``{"marks": {local name: [text, look, meaning]}, "away": why nothing is known}``."""
    asked = scope_within(request.actor, [tenant]).question(1)
    found, away = broker.ask_or_why(lambda rpc: rpc.call(PROBLEMS_LIST, asked)) if asked is not None else (None, "")
    marks = {}
    for namespace, kind in (found.by_namespace if found else {}).items():
        if kind in MARKS:
            state = mark_state(kind)
            marks[namespace.partition("/")[2]] = [state.text, state.kind, state.meaning]
    return JsonResponse({"marks": marks, "away": sentence(away)}, headers={"Cache-Control": "no-store"})
