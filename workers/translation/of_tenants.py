"""Which language a tenant is told something in."""

from __future__ import annotations

from contextlib import AbstractContextManager

from django.utils import translation

from messaging.settings import Settings
from tenants.models import Tenant
from tenants.scoping import platform_scope


def language_of_tenant(settings: Settings, tenant_uid: str) -> str:
    """Its own, else the platform's, which is also that of its administrators, whose uid is ""."""
    with platform_scope():
        chosen = Tenant.objects.filter(uid=tenant_uid).values_list("language", flat=True).first() if tenant_uid else ""
    return chosen or settings.language


def told_in(settings: Settings, tenant_uid: str) -> AbstractContextManager[None]:
    """Texts and figures within are in the language of the tenant."""
    return translation.override(language_of_tenant(settings, tenant_uid))
