"""The first page: what is wrong now, in everything that one may see, the most urgent first."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from django.http import HttpResponse
from django.urls import reverse

from admin_ui import broker, platform_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.now.facts import alerts, of_platform, unsent, with_processes
from admin_ui.now.first_step import first_step
from admin_ui.now.rows import row
from admin_ui.now.visible_scope import visible_scope
from admin_ui.pages import navigation, sentence, show
from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.adminrpc.problems import ProblemsFound
from messaging.permissions.model import Action
from messaging.problems.kinds import MARKS, Kind
from messaging.problems.order import ranked
from tenants.visible import tenants_for

SHOWN_MAX = 100
LATE_S = 60.0  # after which a look at every topic is said to be old


def _look(request: ConsoleRequest) -> dict[str, Any]:
    superuser = request.actor.may(Action.SUPERUSER)
    scope = visible_scope(request.actor)
    found: ProblemsFound | None = None
    away = ""
    if (asked := scope.question(SHOWN_MAX)) is not None:
        found, away = broker.ask_or_why(lambda rpc: rpc.call(PROBLEMS_LIST, asked))
    operated = tenants_for(request.actor, Action.OPERATE)
    firing, alerts_at = alerts(operated)
    worker = platform_view.worker() if superuser else None
    of_machine = list(of_platform()) if superuser else []
    if superuser and found is not None:
        found = with_processes(found, of_machine)
    others = [*firing, *unsent(operated, of_platform=superuser), *of_machine]
    problems = ranked([*(found.problems if found else ()), *others])
    if superuser:  # of others' tenants they are known already
        request.actor.grants.read_tenants({problem.tenant for problem in problems[:SHOWN_MAX] if problem.tenant})
    request.actor.grants.read_namespaces([problem.namespace for problem in problems[:SHOWN_MAX] if problem.namespace])
    total = len(others) + (sum(found.total.values()) + found.beyond if found else 0)
    serious = sum(number for kind, number in _kinds(found, others).items() if kind in MARKS and MARKS[Kind(kind)].serious)
    return {
        "rows": [row(problem, request.actor) for problem in problems[:SHOWN_MAX]],
        "total": total,
        "serious": serious,
        "more": max(0, total - min(len(problems), SHOWN_MAX)),
        "away": sentence(away),
        "unreachable": ", ".join(found.unreachable) if found else "",
        "asked": found is not None or bool(away),
        "beginning": found is not None and found.looked_ms is None,
        "looked_ms": found.looked_ms if found and found.looked_ms and found.at_ms - found.looked_ms > LATE_S * 1000 else None,
        "unknown_topics": found.unknown_topics if found else 0,
        "left_out": scope.left_out,
        "in_part": scope.in_part,
        "unkept": found.beyond if found else 0,
        "alerts_at": alerts_at,
        "first_step": None if problems or away else first_step(request.actor),
        "worker": worker if worker is not None and worker.is_quiet else None,
        "at_ms": time.time_ns() // 1_000_000,
    }


def _kinds(found: ProblemsFound | None, others: list[Any]) -> dict[str, int]:
    kinds = dict(found.total) if found else {}
    for problem in others:
        kinds[problem.kind] = kinds.get(problem.kind, 0) + 1
    return kinds


def _digest(state: dict[str, Any]) -> str:
    """Changes with what the page shows; the time of the look is kept true by the page itself."""
    shown = {key: value for key, value in state.items() if key != "at_ms"}
    return hashlib.blake2b(json.dumps(shown, default=repr, sort_keys=True).encode(), digest_size=12).hexdigest()


@page
def now(request: ConsoleRequest) -> HttpResponse:
    state = _look(request)
    return show(request, "pages/now.html", navigation(request, "now"), digest=_digest(state), fragment=_fragment(), **state)


@page
def now_fragment(request: ConsoleRequest) -> HttpResponse:
    """The part of the page that is refreshed every three seconds; nothing, where `seen` is what it would be."""
    state = _look(request)
    digest = _digest(state)
    if request.GET.get("seen", "") == digest:
        return HttpResponse(status=204, headers={"Cache-Control": "no-store"})
    return show(request, "parts/now.html", navigation(request, "now"), digest=digest, fragment=_fragment(), **state)


def _fragment() -> str:
    return reverse("console:now_fragment")
