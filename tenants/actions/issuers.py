"""Issuers whose tokens a tenant accepts. Whoever sets one could have it issue a token for each role that it maps to, so they need
what those roles can do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings as django_settings

from messaging.errors import Conflict, InvalidName, InvalidValue, NotFound, PreconditionFailed
from messaging.identity.tokens import ISSUER
from messaging.permissions.model import RESERVED_KEY_NAME_PREFIXES, Action, Resource, key_role
from messaging.protocol.names import entity_name
from tenants import feed, maintenance_requests
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.key_rights import require_rights_of_key
from tenants.actions.lasting import require_as_long
from tenants.models import Key, Tenant, TokenIssuer

ISSUERS_MAX = 10  # of one tenant
ROLES_MAX = 50
SKEW_S_MAX = 600
_ADDRESS = re.compile(r"[!-~]{1,1000}")


class IssuerTerms(NamedTuple):
    """What was agreed with an issuer. `roles`: value of the claim -> name of a key, in the order in which they are looked for."""

    issuer: str
    audience: str
    jwks_url: str
    roles: Mapping[str, str]
    role_claim: str = "sub"
    clock_skew_s: int = 60


def set_issuer(actor: Actor, tenant: str, name: str, terms: IssuerTerms) -> TokenIssuer:
    """Creates the issuer, or changes it; its keys are fetched soon. Raises `InvalidValue`, `NotFound` for the tenant,
    `PreconditionFailed` for an address that the platform does not allow the tenant, `NotAuthorized` for a role that can do more
    than the actor, `Conflict` where the audience of this issuer is taken."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    entity_name("issuer", name)
    _check_terms(tenant, terms)
    require_as_long(actor, Action.TENANT_ADMIN, Resource(tenant))
    for key_name in set(terms.roles.values()):
        require_rights_of_key(actor, Key(tenant_id=tenant, name=key_name, role=key_role(key_name, tenant)))
    with change(actor) as changing:
        if not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        rows = TokenIssuer.unscoped.filter(tenant=tenant)
        row = rows.filter(name=name).first()
        before = issuer_terms(row) if row else None
        if row is None and rows.count() >= ISSUERS_MAX:
            raise PreconditionFailed(f"tenant {tenant!r} has {ISSUERS_MAX} issuers, and may have no more: delete one first")
        row = row or TokenIssuer(tenant_id=tenant, name=name)
        taken = TokenIssuer.unscoped.filter(issuer=terms.issuer, audience=terms.audience).exclude(pk=row.pk)
        if taken.exists():
            raise Conflict(f"audience {terms.audience[:80]!r} of this issuer is in use already: agree on another one with it")
        if row.jwks_url != terms.jwks_url or row.issuer != terms.issuer:
            row.keys, row.fetched_at, row.tried_at, row.problem = [], None, None, ""  # those of another issuer are nothing to it
        for field, value in terms._asdict().items():
            setattr(row, field, dict(value) if field == "roles" else value)
        row.save()
        changing.audit("issuer.set", tenant, f"{tenant}/{name}", before, issuer_terms(row))
        changing.publish_change("issuer", f"{tenant}/{name}", feed.issuer_state(row))
    maintenance_requests.requested(maintenance_requests.ISSUER_KEYS)
    return row


def delete_issuer(actor: Actor, tenant: str, name: str) -> None:
    """From its return on none of its tokens is accepted, and what was opened with them is closed."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        row = TokenIssuer.unscoped.filter(tenant=tenant, name=name).first()
        if row is None:
            raise NotFound(f"issuer {name[:80]!r} does not exist in tenant {tenant!r}")
        row.delete()
        changing.audit("issuer.delete", tenant, f"{tenant}/{name}", issuer_terms(row))
        changing.publish_change("issuer", f"{tenant}/{name}", None)


def keep_issuer_keys(actor: Actor, issuer_id: int, jwks_url: str, keys: list[dict[str, str]], fetched_at: datetime) -> bool:
    """What a worker fetched from `jwks_url`. Returns whether the keys are others than before; those that are gone verify nothing
    any more. Nothing happens where the issuer was deleted or changed meanwhile."""
    require(actor, Action.SERVICE)
    row = TokenIssuer.unscoped.filter(pk=issuer_id, jwks_url=jwks_url).first()
    if row is None or row.keys == keys:
        TokenIssuer.unscoped.filter(pk=issuer_id, jwks_url=jwks_url).update(fetched_at=fetched_at, tried_at=fetched_at, problem="")
        return False
    with change(actor, must_confirm=False) as changing:
        row = TokenIssuer.unscoped.filter(pk=issuer_id, jwks_url=jwks_url).first()
        if row is None:
            return False
        before, row.keys = key_ids(row), keys
        row.fetched_at = row.tried_at = fetched_at
        row.problem = ""
        row.save()
        name = f"{row.tenant_id}/{row.name}"
        changing.audit("issuer.set_keys", row.tenant_id, name, {"keys": before}, {"keys": key_ids(row)})
        changing.publish_change("issuer", name, feed.issuer_state(row))
    return True


def keep_issuer_problem(actor: Actor, issuer_id: int, problem: str, tried_at: datetime) -> None:
    """The keys of before stay."""
    require(actor, Action.SERVICE)
    TokenIssuer.unscoped.filter(pk=issuer_id).update(problem=problem[:500], tried_at=tried_at)


def issuer_terms(row: TokenIssuer) -> dict[str, Any]:
    return {field: getattr(row, field) for field in IssuerTerms._fields}


def key_ids(row: TokenIssuer) -> list[str]:
    return [key["kid"] for key in row.keys]


def allowed_addresses(tenant: str) -> list[str]:
    """How addresses of JWKS documents may begin for this tenant, by the setting token_issuers_allowed."""
    entries: tuple[str, ...] = django_settings.MAGNETAR.token_issuers_allowed
    return [url for whose, _, url in (entry.partition("=") for entry in entries) if whose == tenant]


def _check_terms(tenant: str, terms: IssuerTerms) -> None:
    if terms.issuer in (ISSUER, django_settings.MAGNETAR.token_verify_issuer):
        raise InvalidValue(f"issuer {terms.issuer[:80]!r} is the platform's own: give the claim `iss` of another issuer's tokens")
    for field in ("issuer", "audience", "role_claim"):
        text = getattr(terms, field)
        if not text or not text.isprintable() or len(text) > 255:
            raise InvalidValue(f"{field} {text[:80]!r} is not valid: use 1 to 255 printable characters")
    if (
        not any(terms.jwks_url.startswith(begin) for begin in allowed_addresses(tenant))
        or ".." in terms.jwks_url
        or not _ADDRESS.fullmatch(terms.jwks_url)
    ):
        raise PreconditionFailed(
            f"jwks_url {terms.jwks_url[:120]!r} is not allowed for tenant {tenant!r}: ask an administrator of the platform to add "
            "how it begins to token_issuers_allowed"
        )
    if not 0 <= terms.clock_skew_s <= SKEW_S_MAX:
        raise InvalidValue(f"clock_skew_s = {terms.clock_skew_s} is not a number from 0 to {SKEW_S_MAX}")
    if not 1 <= len(terms.roles) <= ROLES_MAX:
        raise InvalidValue(f"{len(terms.roles)} values are mapped to roles; 1 to {ROLES_MAX} are needed")
    for value, key_name in terms.roles.items():
        entity_name("key", key_name)
        if not value or len(value) > 255 or key_name.startswith(RESERVED_KEY_NAME_PREFIXES):
            raise InvalidName(
                f"{value[:80]!r} cannot be mapped to {key_name[:80]!r}: use a value of 1 to 255 characters, and the name of a key"
            )
