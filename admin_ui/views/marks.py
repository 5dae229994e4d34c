"""The most urgent problem of each namespace, for the list of them: asked for by the page, so that it waits for no broker."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import sentence
from admin_ui.topic_stats import mark_state
from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.adminrpc.problems import ProblemsList
from messaging.permissions.model import Action, Resource
from messaging.problems.kinds import MARKS
from tenants.models import Namespace

NAMESPACES_MAX = 1_000  # of a tenant of which the reader may see only some


@page
def namespace_marks(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """``{"marks": {local name: [text, look, meaning]}, "away": why nothing is known}``."""
    asked = ProblemsList(of_tenants=[tenant], problems_max=1)
    if not request.actor.may(Action.NAMESPACE_READ, Resource(tenant)):
        names = list(Namespace.objects.values_list("name", flat=True))
        request.actor.grants.read_namespaces(names)
        names = [name for name in names if request.actor.may(Action.NAMESPACE_READ, Resource(tenant, name))]
        asked = ProblemsList(of_namespaces=names[:NAMESPACES_MAX], problems_max=1)
    found, away = broker.ask_or_why(lambda rpc: rpc.call(PROBLEMS_LIST, asked))
    marks = {}
    for namespace, kind in (found.by_namespace if found else {}).items():
        if kind in MARKS:
            state = mark_state(kind)
            marks[namespace.partition("/")[2]] = [state.text, state.kind, state.meaning]
    return JsonResponse({"marks": marks, "away": sentence(away)}, headers={"Cache-Control": "no-store"})
