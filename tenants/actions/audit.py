"""What can be asked of the audit log itself."""

from __future__ import annotations

from django.conf import settings as django_settings

from messaging.permissions.model import Action
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.audit.heads import sign_head
from tenants.models import AuditHead


def sign_audit_head(actor: Actor) -> AuditHead | None:
    """The head includes the record that it was asked for."""
    require(actor, Action.SUPERUSER)
    record(actor, "audit.sign_head", "", "platform")
    return sign_head(django_settings.MAGNETAR)
