"""The language of a tenant: of its mails, of the prose that its webhook and its topic of notices get, and of its invoices."""

from __future__ import annotations

from messaging.errors import InvalidValue
from messaging.languages import LANGUAGES
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.tenants import existing_tenant
from tenants.models import Tenant


def set_language(actor: Actor, name: str, language: str) -> Tenant:
    """`language`: "" for that of the platform. Raises `NotAuthorized`, `NotFound`, `InvalidValue`."""
    require(actor, Action.TENANT_ADMIN, Resource(name))
    if language and language not in LANGUAGES:
        raise InvalidValue(f"language {language[:20]!r} is not offered: use one of {', '.join(LANGUAGES)}, or none")
    with change(actor) as changing:
        tenant = existing_tenant(name)
        before = tenant.language
        if language != before:
            tenant.language = language
            tenant.save(update_fields=["language"])
            changing.audit("tenant.set_language", name, name, {"language": before}, {"language": language})
    return tenant
