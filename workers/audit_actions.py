"""What can be asked of the worker that verifies the audit log."""

from __future__ import annotations

from messaging.permissions.model import Action
from tenants.access import Actor, require
from tenants.actions.change import record
from workers.models import TaskRun
from workers.queue import ask_for
from workers.schedule import VERIFY_AUDIT


def verify_audit_log(actor: Actor) -> TaskRun:
    require(actor, Action.SUPERUSER)
    record(actor, "audit.verify", "", "platform")
    return ask_for(VERIFY_AUDIT, actor.principal.role)


def last_verification(*outcomes: str) -> TaskRun | None:
    """The newest run, of those with one of these outcomes."""
    runs = TaskRun.objects.filter(name=VERIFY_AUDIT).order_by("-started_at")
    return (runs.filter(outcome__in=outcomes) if outcomes else runs).first()
