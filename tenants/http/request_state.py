"""What the web process knows of a request beside what Django does. Everything that looks for it asks here."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

from tenants.access import Actor


@dataclass(slots=True)
class RequestState:
    """`actor`: who makes the request, once somebody asked. `denied`: why it is refused, "" if it is not. `denied_tenant`: whose
    resource that was about, where the path names none. `dry_run`: it only asked what a change would do, and changed nothing.
    `nothing_read`: it went on looking through messages, and showed none. `failed`: the status of the gravest error that a page
    says in words, whatever its own status is; 0 without one."""

    actor: Actor | None = None
    denied: str = ""
    denied_tenant: str = ""
    dry_run: bool = False
    nothing_read: bool = False
    failed: int = 0


def state_of(request: HttpRequest) -> RequestState:
    """Made with the first question, and the same one from then on."""
    state: RequestState | None = getattr(request, "magnetar", None)
    if state is None:
        state = RequestState()
        request.magnetar = state  # type: ignore[attr-defined]
    return state
