"""The permission of each page of the console (`admin_ui.urls`): (HTTP method or "WEBSOCKET", route name) -> action.

The resource is what the address names: `<tenant>`, `<namespace>`, `<topic>`. HEAD goes by GET's row.
A page without a row is refused.
"""

from __future__ import annotations

from messaging.permissions.audited import CHANGE_PASSWORD, DENIED, SIGN_IN, SIGN_OUT
from messaging.permissions.model import Action
from tenants.pulsar.permissions import AUDITED as PULSAR_AUDITED
from tenants.rest.permissions import AUDITED as API_AUDITED
from workers.rest.permissions import AUDITED as WORKERS_AUDITED

CONSOLE: dict[tuple[str, str], Action] = {
    ("GET", "console:sign_in"): Action.PUBLIC,
    ("POST", "console:sign_in"): Action.PUBLIC,
    ("POST", "console:sign_out"): Action.PUBLIC,
    ("GET", "console:home"): Action.AUTHENTICATED,
    ("GET", "console:password"): Action.AUTHENTICATED,
    ("POST", "console:password"): Action.AUTHENTICATED,
    ("GET", "console:jump"): Action.AUTHENTICATED,
    # Tenants
    ("GET", "console:tenants"): Action.AUTHENTICATED,
    ("GET", "console:tenant_create"): Action.SUPERUSER,
    ("POST", "console:tenant_create"): Action.SUPERUSER,
    ("GET", "console:tenant"): Action.TENANT_SEE,
    ("GET", "console:tenant_delete"): Action.SUPERUSER,
    ("POST", "console:tenant_delete"): Action.SUPERUSER,
    ("GET", "console:tenant_labels"): Action.TENANT_ADMIN,
    ("POST", "console:tenant_labels"): Action.TENANT_ADMIN,
    ("GET", "console:tenant_policies"): Action.TENANT_READ,
    ("POST", "console:tenant_policies"): Action.SUPERUSER,
    ("GET", "console:audit"): Action.AUDIT_READ,
    ("GET", "console:audit_export"): Action.AUDIT_READ,
    ("GET", "console:platform_audit"): Action.SUPERUSER,
    ("GET", "console:platform_audit_export"): Action.SUPERUSER,
    ("GET", "console:audit_chain"): Action.SUPERUSER,
    ("POST", "console:audit_chain"): Action.SUPERUSER,
    # Keys
    ("GET", "console:alerts"): Action.TENANT_ADMIN,
    ("POST", "console:alerts"): Action.TENANT_ADMIN,
    ("GET", "console:keys"): Action.KEY_ADMIN,
    ("GET", "console:key_create"): Action.KEY_ADMIN,
    ("POST", "console:key_create"): Action.KEY_ADMIN,
    ("GET", "console:key_revoke"): Action.KEY_ADMIN,
    ("POST", "console:key_revoke"): Action.KEY_ADMIN,
    ("GET", "console:key"): Action.KEY_ADMIN,
    ("GET", "console:key_rotate"): Action.KEY_ADMIN,
    ("POST", "console:key_rotate"): Action.KEY_ADMIN,
    ("GET", "console:key_leaked"): Action.KEY_ADMIN,
    ("POST", "console:key_leaked"): Action.KEY_ADMIN,
    # Roles and ceilings
    ("GET", "console:roles"): Action.TENANT_READ,
    ("GET", "console:role_create"): Action.TENANT_ADMIN,
    ("POST", "console:role_create"): Action.TENANT_ADMIN,
    ("GET", "console:role"): Action.TENANT_ADMIN,
    ("POST", "console:role"): Action.TENANT_ADMIN,
    ("GET", "console:role_delete"): Action.TENANT_ADMIN,
    ("POST", "console:role_delete"): Action.TENANT_ADMIN,
    ("GET", "console:teams"): Action.TENANT_READ,
    ("GET", "console:team_create"): Action.TENANT_ADMIN,
    ("POST", "console:team_create"): Action.TENANT_ADMIN,
    ("GET", "console:team"): Action.TENANT_READ,
    ("POST", "console:team"): Action.TENANT_ADMIN,
    ("GET", "console:team_edit"): Action.TENANT_ADMIN,
    ("POST", "console:team_edit"): Action.TENANT_ADMIN,
    ("GET", "console:team_delete"): Action.TENANT_ADMIN,
    ("POST", "console:team_delete"): Action.TENANT_ADMIN,
    ("GET", "console:access"): Action.TENANT_READ,
    ("GET", "console:ceilings"): Action.TENANT_READ,
    ("POST", "console:ceilings"): Action.SUPERUSER,
    # Namespaces
    ("GET", "console:namespace_create"): Action.NAMESPACE_ADMIN,
    ("POST", "console:namespace_create"): Action.NAMESPACE_ADMIN,
    ("GET", "console:namespace"): Action.NAMESPACE_READ,
    ("WEBSOCKET", "console:namespace_live"): Action.NAMESPACE_READ,
    ("GET", "console:policies"): Action.NAMESPACE_READ,
    ("POST", "console:policies"): Action.NAMESPACE_ADMIN,
    ("GET", "console:namespace_delete"): Action.NAMESPACE_ADMIN,
    ("POST", "console:namespace_delete"): Action.NAMESPACE_ADMIN,
    ("GET", "console:quick_start"): Action.TENANT_ADMIN,
    ("POST", "console:quick_start"): Action.TENANT_ADMIN,
    # Topics
    ("GET", "console:topic_create"): Action.TOPIC_ADMIN,
    ("POST", "console:topic_create"): Action.TOPIC_ADMIN,
    ("GET", "console:topic"): Action.NAMESPACE_READ,
    ("GET", "console:topic_fragment"): Action.NAMESPACE_READ,
    ("GET", "console:topic_trace"): Action.NAMESPACE_READ,
    ("GET", "console:topic_policies"): Action.NAMESPACE_READ,
    ("POST", "console:topic_policies"): Action.TOPIC_ADMIN,
    ("GET", "console:delayed"): Action.NAMESPACE_READ,  # and CONSUME for the list of messages
    ("POST", "console:delayed"): Action.PRODUCE,
    ("GET", "console:delayed_chart"): Action.NAMESPACE_READ,
    ("GET", "console:topic_delete"): Action.TOPIC_ADMIN,
    ("POST", "console:topic_delete"): Action.TOPIC_ADMIN,
    ("GET", "console:redrives"): Action.OPERATE,
    ("POST", "console:redrives"): Action.OPERATE,
    ("GET", "console:redrives_fragment"): Action.OPERATE,
    ("GET", "console:redrive"): Action.OPERATE,
    ("POST", "console:redrive"): Action.OPERATE,
    ("GET", "console:dead_letter_policy"): Action.CONSUME,
    ("POST", "console:dead_letter_policy"): Action.CONSUME,
    # People, usage and the platform
    ("GET", "console:people"): Action.SUPERUSER,
    ("GET", "console:person_create"): Action.SUPERUSER,
    ("POST", "console:person_create"): Action.SUPERUSER,
    ("GET", "console:person_password"): Action.SUPERUSER,
    ("POST", "console:person_password"): Action.SUPERUSER,
    ("GET", "console:person_active"): Action.SUPERUSER,
    ("POST", "console:person_active"): Action.SUPERUSER,
    ("GET", "console:usage"): Action.AUTHENTICATED,
    ("POST", "console:usage_compute"): Action.SUPERUSER,
    ("GET", "console:tasks"): Action.SUPERUSER,
    ("GET", "console:tasks_fragment"): Action.SUPERUSER,
    ("POST", "console:task_decide"): Action.SUPERUSER,
    ("GET", "console:usage_runs"): Action.SUPERUSER,
    ("GET", "console:usage_run"): Action.AUTHENTICATED,  # findings of the tenants that the user may see
    ("GET", "console:usage_evidence"): Action.AUTHENTICATED,
    ("GET", "console:price_plans"): Action.SUPERUSER,
    ("GET", "console:price_plan_create"): Action.SUPERUSER,
    ("POST", "console:price_plan_create"): Action.SUPERUSER,
    ("GET", "console:issuer"): Action.SUPERUSER,
    ("POST", "console:issuer"): Action.SUPERUSER,
    ("GET", "console:billing"): Action.BILLING_READ,
    ("POST", "console:billing"): Action.SUPERUSER,
    ("GET", "console:month_ahead"): Action.USAGE_READ,
    ("GET", "console:budgets"): Action.BILLING_READ,
    ("POST", "console:budgets"): Action.BILLING_ADMIN,
    ("GET", "console:budget_delete"): Action.BILLING_ADMIN,
    ("POST", "console:budget_delete"): Action.BILLING_ADMIN,
    ("GET", "console:reports"): Action.BILLING_READ,
    ("POST", "console:reports"): Action.BILLING_ADMIN,
    ("GET", "console:report_delete"): Action.BILLING_ADMIN,
    ("POST", "console:report_delete"): Action.BILLING_ADMIN,
    ("GET", "console:report_file"): Action.BILLING_READ,
    ("GET", "console:costs"): Action.AUTHENTICATED,  # of the tenants that the user may see
    ("GET", "console:invoices"): Action.BILLING_READ,
    ("GET", "console:invoice"): Action.BILLING_READ,
    ("GET", "console:invoice_pdf"): Action.BILLING_READ,
    ("GET", "console:invoice_html"): Action.BILLING_READ,
    ("GET", "console:invoice_json"): Action.BILLING_READ,
    ("GET", "console:platform"): Action.SUPERUSER,
    ("GET", "console:platform_fragment"): Action.SUPERUSER,
    ("GET", "console:platform_alerts"): Action.SUPERUSER,
    ("POST", "console:platform_alerts"): Action.SUPERUSER,
}

# Under which name a request is recorded in the audit log.
AUDITED: dict[tuple[str, str], str] = {
    ("POST", "console:sign_in"): SIGN_IN,
    ("POST", "console:sign_out"): SIGN_OUT,
    ("POST", "console:password"): CHANGE_PASSWORD,
    ("POST", "console:audit_chain"): "audit",  # .sign_head or .verify
    ("POST", "console:tenant_create"): "tenant.create",
    ("POST", "console:tenant_delete"): "tenant.delete",
    ("POST", "console:tenant_labels"): "tenant.set_labels",
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
    ("POST", "console:ceilings"): "tenant.set_policies",
    ("POST", "console:person_create"): "person.create",
    ("POST", "console:person_password"): "person.set_password",
    ("POST", "console:person_active"): "person.set_active",
    ("POST", "console:namespace_create"): "namespace.create",
    ("POST", "console:policies"): "namespace.set_policies",
    ("POST", "console:topic_policies"): "topic.set_policies",
    ("POST", "console:namespace_delete"): "namespace.delete",
    ("POST", "console:quick_start"): "key.create",
    ("POST", "console:topic_create"): "topic.create",
    ("POST", "console:topic_delete"): "topic.delete",
    ("POST", "console:dead_letter_policy"): "subscription.set_dead_letter_policy",
    ("POST", "console:usage_compute"): "usage.compute",
    ("POST", "console:task_decide"): "task",  # .requeue or .discard
    ("POST", "console:delayed"): "delayed",  # .cancel or .reschedule
    ("POST", "console:redrives"): "redrive.start",
    ("POST", "console:redrive"): "redrive",  # .pause, .resume or .cancel
    ("POST", "console:alerts"): "alert_rule",  # .create or .delete, or notifications.set
    ("POST", "console:price_plan_create"): "price_plan.publish",
    ("POST", "console:issuer"): "billing.issuer",
    ("POST", "console:billing"): "billing",  # .account or .credit, or price_plan.assign
    ("POST", "console:platform_alerts"): "notifications.set",
    ("POST", "console:budgets"): "budget.create",
    ("POST", "console:budget_delete"): "budget.delete",
    ("POST", "console:reports"): "report.create",
    ("POST", "console:report_delete"): "report.delete",
}

# All names by which a tenant may look for records.
RECORDED = sorted({*PULSAR_AUDITED.values(), *API_AUDITED.values(), *WORKERS_AUDITED.values(), *AUDITED.values(), DENIED})
