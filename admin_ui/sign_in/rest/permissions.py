"""The permission of each route of `admin_ui.sign_in.rest.urls`, as in `tenants.rest.permissions`."""

from __future__ import annotations

from messaging.permissions.audited import SESSIONS_END
from messaging.permissions.model import Action

ACTIONS: dict[tuple[str, str], Action] = {
    ("GET", "api:my-sessions"): Action.AUTHENTICATED,  # none, for a key
    ("DELETE", "api:my-sessions"): Action.AUTHENTICATED,
    ("DELETE", "api:my-session"): Action.AUTHENTICATED,
    ("GET", "api:sign-in-rules"): Action.TENANT_READ,
    ("PUT", "api:sign-in-rules"): Action.TENANT_ADMIN,
    ("GET", "api:invitations"): Action.TENANT_ADMIN,
    ("POST", "api:invitations"): Action.TENANT_ADMIN,
    ("GET", "api:invitation"): Action.TENANT_ADMIN,
    ("DELETE", "api:invitation"): Action.TENANT_ADMIN,
}
AUDITED: dict[tuple[str, str], str] = {
    ("DELETE", "api:my-sessions"): SESSIONS_END,
    ("DELETE", "api:my-session"): SESSIONS_END,
    ("PUT", "api:sign-in-rules"): "tenant.require_second_factor",
    ("POST", "api:invitations"): "invitation.create",
    ("DELETE", "api:invitation"): "invitation.revoke",
}
