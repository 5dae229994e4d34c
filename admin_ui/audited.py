"""The name in the audit log of a request for a page (`admin_ui.permissions`): (HTTP method, route name) -> name."""

from __future__ import annotations

from messaging.permissions.audited import (
    CHANGE_PASSWORD,
    DENIED,
    EMAIL,
    EMAIL_VERIFIED,
    RESET_PASSWORD,
    RESET_PASSWORD_ASKED,
    SECOND_FACTOR,
    SESSIONS_END,
    SHOWN_AGAIN,
    SIGN_IN,
    SIGN_OUT,
    SIGN_UP,
)
from tenants.pulsar.permissions import AUDITED as PULSAR_AUDITED
from tenants.rest.permissions import AUDITED as API_AUDITED
from workers.rest.permissions import AUDITED as WORKERS_AUDITED

AUDITED: dict[tuple[str, str], str] = {
    ("POST", "console:sign_in"): SIGN_IN,
    ("POST", "console:sign_out"): SIGN_OUT,
    ("POST", "console:password"): CHANGE_PASSWORD,
    ("POST", "console:audit_chain"): "audit",  # .sign_head or .verify
    ("POST", "console:sessions"): SESSIONS_END,
    ("POST", "console:person_link"): "person.link",
    ("POST", "console:person_factors"): f"{SECOND_FACTOR}.remove",
    ("POST", "console:person_sessions"): SESSIONS_END,
    ("POST", "account_signup"): SIGN_UP,
    ("POST", "account_reset_password"): RESET_PASSWORD_ASKED,
    ("POST", "account_reset_password_from_key"): RESET_PASSWORD,
    ("POST", "account_confirm_email"): EMAIL_VERIFIED,
    ("POST", "account_email"): EMAIL,
    ("POST", "account_reauthenticate"): SHOWN_AGAIN,
    ("POST", "mfa_reauthenticate"): SHOWN_AGAIN,
    ("POST", "mfa_reauthenticate_webauthn"): SHOWN_AGAIN,
    ("GET", "openid_connect_callback"): SIGN_IN,
    ("POST", "mfa_authenticate"): SIGN_IN,
    ("POST", "mfa_login_webauthn"): SIGN_IN,
    ("POST", "mfa_activate_totp"): f"{SECOND_FACTOR}.add",
    ("POST", "mfa_add_webauthn"): f"{SECOND_FACTOR}.add",
    ("POST", "mfa_edit_webauthn"): f"{SECOND_FACTOR}.rename",
    ("POST", "mfa_deactivate_totp"): f"{SECOND_FACTOR}.remove",
    ("POST", "mfa_remove_webauthn"): f"{SECOND_FACTOR}.remove",
    ("POST", "mfa_generate_recovery_codes"): f"{SECOND_FACTOR}.reset",
    ("POST", "console:member_set"): "member.set",
    ("POST", "console:member_remove"): "member.remove",
    ("POST", "console:grant_create"): "permission.grant",
    ("POST", "console:grant_revoke"): "permission.revoke",
    ("POST", "console:second_factor_rule"): "tenant.require_second_factor",
    ("POST", "console:invitation_create"): "invitation.create",
    ("POST", "console:invitation_revoke"): "invitation.revoke",
    ("POST", "console:invitation"): "invitation.accept",
    ("POST", "console:tenant_create"): "tenant.create",
    ("POST", "console:tenant_delete"): "tenant.delete",
    ("POST", "console:recycled_tenant_restore"): "tenant.restore",
    ("POST", "console:recycled_tenant_purge"): "tenant.purge",
    ("POST", "console:tenant_labels"): "tenant.set_labels",
    ("POST", "console:tenant_language"): "tenant.set_language",
    ("POST", "console:tenant_policies"): "tenant.set_policies",
    ("POST", "console:key_create"): "key.create",
    ("POST", "console:key_revoke"): "key.revoke",
    ("POST", "console:key_rotate"): "key.replace",
    ("POST", "console:key_leaked"): "key.revoke",
    ("POST", "console:role_create"): "role.set",
    ("POST", "console:role"): "role.set",
    ("POST", "console:role_delete"): "role.delete",
    ("POST", "console:team_create"): "team.set",
    ("POST", "console:team"): "team",  # .add_member or .remove_member
    ("POST", "console:team_edit"): "team.set",
    ("POST", "console:team_delete"): "team.delete",
    ("POST", "console:token_issuer_create"): "issuer.set",
    ("POST", "console:token_issuer"): "issuer.set",
    ("POST", "console:token_issuer_delete"): "issuer.delete",
    ("POST", "console:audit_stream"): "audit_stream.set",
    ("POST", "console:audit_stream_delete"): "audit_stream.delete",
    ("POST", "console:platform_audit_stream"): "audit_stream.set",
    ("POST", "console:platform_audit_stream_delete"): "audit_stream.delete",
    ("POST", "console:spend_caps"): "spend_cap",  # .set or .remove
    ("POST", "console:view_create"): "view.save",
    ("POST", "console:view_delete"): "view.delete",
    ("POST", "console:person_create"): "person.create",
    ("POST", "console:person_password"): "person.set_password",
    ("POST", "console:person_active"): "person.set_active",
    ("POST", "console:person_administrator"): "person.set_administrator",
    ("POST", "console:namespace_create"): "namespace.create",
    ("POST", "console:policies"): "namespace.set_policies",
    ("POST", "console:topic_policies"): "topic.set_policies",
    ("POST", "console:namespace_delete"): "namespace.delete",
    ("POST", "console:bundle_split"): "namespace.split_bundle",
    ("POST", "console:bundle_unload"): "namespace.unload",
    ("POST", "console:quick_start"): "key.create",
    ("POST", "console:topic_create"): "topic.create",
    ("POST", "console:topic_delete"): "topic.delete",
    ("POST", "console:topic_disconnect"): "client.disconnect",
    ("POST", "console:topic_unload"): "topic.unload",
    ("POST", "console:topic_compact"): "topic.compact",
    ("POST", "console:topic_trim"): "topic.trim",
    ("POST", "console:topic_truncate"): "topic.truncate",
    ("POST", "console:topic_terminate"): "topic.terminate",
    ("POST", "console:topic_partitions"): "topic.grow",
    ("POST", "console:recycled_namespace_restore"): "namespace.restore",
    ("POST", "console:recycled_namespace_purge"): "namespace.purge",
    ("POST", "console:recycled_restore"): "topic.restore",
    ("POST", "console:recycled_purge"): "topic.purge",
    ("POST", "console:subscription_create"): "subscription.create",
    ("POST", "console:subscription_skip"): "subscription.skip",
    ("POST", "console:subscription_clear"): "subscription.clear_backlog",
    ("POST", "console:subscription_reset"): "subscription.reset",
    ("POST", "console:subscription_expire"): "subscription.expire",
    ("POST", "console:subscription_delete"): "subscription.delete",
    ("POST", "console:subscription_undo"): "subscription.undo",
    ("POST", "console:dead_letter_policy"): "subscription.set_dead_letter_policy",
    ("POST", "console:usage_compute"): "usage.compute",
    ("POST", "console:task_decide"): "task",  # .requeue or .discard
    ("POST", "console:message_publish"): "message.publish",
    ("POST", "console:delayed"): "delayed",  # .cancel or .reschedule
    ("POST", "console:dead_letters"): "redrive",  # .start, .pause, .resume or .cancel
    ("POST", "console:redrive_edited"): "redrive.start",
    ("POST", "console:redrives"): "redrive.start",
    ("POST", "console:redrive"): "redrive",  # .pause, .resume or .cancel
    ("POST", "console:alerts"): "alert_rule",  # .create or .restore, or notifications.set or .test
    ("POST", "console:alert_rule"): "alert_rule",  # .change, .silence or .delete
    ("POST", "console:price_plan_create"): "price_plan.publish",
    ("POST", "console:issuer"): "billing.issuer",
    ("POST", "console:billing"): "billing",  # .account or .credit, or price_plan.assign
    ("POST", "console:platform_alerts"): "notifications.set",
    ("POST", "console:invoices_compute"): "invoice.compute",
    ("POST", "console:broker_drain"): "broker.drain",
    ("POST", "console:broker_end_drain"): "broker.end_drain",
    ("POST", "console:failure_domain_create"): "failure_domain.set",
    ("POST", "console:failure_domain"): "failure_domain.set",
    ("POST", "console:failure_domain_delete"): "failure_domain.delete",
    ("POST", "console:isolation_policy_create"): "isolation.set",
    ("POST", "console:isolation_policy"): "isolation.set",
    ("POST", "console:isolation_policy_delete"): "isolation.delete",
    ("POST", "console:budgets"): "budget.create",
    ("POST", "console:budget_delete"): "budget.delete",
    ("POST", "console:reports"): "report.create",
    ("POST", "console:report_delete"): "report.delete",
}

# Pages that show what somebody published.
PAYLOAD_READS: dict[tuple[str, str], str] = {
    ("GET", "console:messages"): "message.browse",
    ("GET", "console:message"): "message.read",
    ("GET", "console:messages_tail"): "message.browse",
    ("GET", "console:messages_export"): "message.export",
    ("GET", "console:message_payload"): "message.read",
    ("GET", "console:dead_letters"): "message.browse",  # keys and properties
    ("GET", "console:delayed"): "message.browse",  # keys
}
AUDITED |= PAYLOAD_READS

# All names by which a tenant may look for records.
RECORDED = sorted({*PULSAR_AUDITED.values(), *API_AUDITED.values(), *WORKERS_AUDITED.values(), *AUDITED.values(), DENIED})
