"""Names of records in the audit log that several processes know, and what the broker records.

The rows of REST and console are beside their routes (`controlplane.permissions`).
"""

from __future__ import annotations

DENIED, DENIED_MORE = "denied", "denied.more"
SIGN_IN, SIGN_OUT, CHANGE_PASSWORD = "session.sign_in", "session.sign_out", "user.change_password"
SIGN_IN_FAILED, CHANGE_PASSWORD_FAILED = "session.sign_in_failed", "user.change_password_failed"
SIGN_UP, RESET_PASSWORD, RESET_PASSWORD_ASKED = "user.sign_up", "user.reset_password", "user.reset_password_asked"
EMAIL, EMAIL_VERIFIED, SHOWN_AGAIN = "user.email", "user.email_verified", "user.reauthenticate"
SESSIONS_END = "user.end_sessions"
SECOND_FACTOR = "user.second_factor"  # .add, .remove or .reset
# What clients of the broker do, or are refused: counted there, and written by a task.
BROKER_DENIED, BROKER_SIGN_IN_FAILED, BROKER_RESTART = "broker.denied", "broker.sign_in_failed", "broker.restart"
REFUSALS = frozenset({BROKER_DENIED, BROKER_SIGN_IN_FAILED})
SUBSCRIPTION_CREATE, SUBSCRIPTION_DELETE, SUBSCRIPTION_SEEK = "subscription.create", "subscription.delete", "subscription.seek"
MORE = ".more"  # behind the name of an action: further ones, that were only counted

# Of binary commands and WebSocket paths: what leaves a record where it is done. Each may be refused, too (`BROKER_DENIED`).
BROKER_AUDITED: dict[str, str] = {
    "PRODUCER": SUBSCRIPTION_CREATE,  # the initial subscription
    "SUBSCRIBE": SUBSCRIPTION_CREATE,
    "UNSUBSCRIBE": SUBSCRIPTION_DELETE,
    "SEEK": SUBSCRIPTION_SEEK,
    "/ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}": SUBSCRIPTION_CREATE,
    "/ws/v3/consumer/{subscription}": SUBSCRIPTION_CREATE,
}
