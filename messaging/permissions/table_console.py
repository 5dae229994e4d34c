"""Console rows of the permission table: (HTTP method or "WEBSOCKET", route name) -> action.

The resource is what the address names: `<tenant>`, `<namespace>`, `<topic>`. HEAD goes by GET's row.
A page without a row is refused.
"""

from __future__ import annotations

from messaging.permissions.model import Action

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
    ("GET", "console:tenant"): Action.TENANT_READ,
    ("GET", "console:tenant_delete"): Action.SUPERUSER,
    ("POST", "console:tenant_delete"): Action.SUPERUSER,
    ("GET", "console:tenant_policies"): Action.TENANT_READ,
    ("POST", "console:tenant_policies"): Action.SUPERUSER,
    ("GET", "console:audit"): Action.TENANT_ADMIN,
    # Keys
    ("GET", "console:keys"): Action.TENANT_ADMIN,
    ("GET", "console:key_create"): Action.TENANT_ADMIN,
    ("POST", "console:key_create"): Action.TENANT_ADMIN,
    ("GET", "console:key_revoke"): Action.TENANT_ADMIN,
    ("POST", "console:key_revoke"): Action.TENANT_ADMIN,
    # Namespaces
    ("GET", "console:namespace_create"): Action.TENANT_ADMIN,
    ("POST", "console:namespace_create"): Action.TENANT_ADMIN,
    ("GET", "console:namespace"): Action.NAMESPACE_READ,
    ("WEBSOCKET", "console:namespace_live"): Action.NAMESPACE_READ,
    ("GET", "console:policies"): Action.NAMESPACE_READ,
    ("POST", "console:policies"): Action.TENANT_ADMIN,
    ("GET", "console:namespace_delete"): Action.TENANT_ADMIN,
    ("POST", "console:namespace_delete"): Action.TENANT_ADMIN,
    ("GET", "console:quick_start"): Action.TENANT_ADMIN,
    ("POST", "console:quick_start"): Action.TENANT_ADMIN,
    # Topics
    ("GET", "console:topic_create"): Action.TENANT_ADMIN,
    ("POST", "console:topic_create"): Action.TENANT_ADMIN,
    ("GET", "console:topic"): Action.NAMESPACE_READ,
    ("GET", "console:topic_fragment"): Action.NAMESPACE_READ,
    ("GET", "console:topic_trace"): Action.NAMESPACE_READ,
    ("GET", "console:topic_policies"): Action.NAMESPACE_READ,
    ("POST", "console:topic_policies"): Action.TENANT_ADMIN,
    ("GET", "console:topic_delete"): Action.TENANT_ADMIN,
    ("POST", "console:topic_delete"): Action.TENANT_ADMIN,
    ("GET", "console:dead_letter_policy"): Action.TENANT_ADMIN,
    ("POST", "console:dead_letter_policy"): Action.TENANT_ADMIN,
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
    ("GET", "console:usage_run"): Action.SUPERUSER,
    ("GET", "console:month_ahead"): Action.TENANT_READ,
    ("GET", "console:budgets"): Action.TENANT_ADMIN,
    ("POST", "console:budgets"): Action.TENANT_ADMIN,
    ("GET", "console:budget_delete"): Action.TENANT_ADMIN,
    ("POST", "console:budget_delete"): Action.TENANT_ADMIN,
    ("GET", "console:reports"): Action.TENANT_ADMIN,
    ("POST", "console:reports"): Action.TENANT_ADMIN,
    ("GET", "console:report_delete"): Action.TENANT_ADMIN,
    ("POST", "console:report_delete"): Action.TENANT_ADMIN,
    ("GET", "console:report_file"): Action.TENANT_ADMIN,
    ("GET", "console:costs"): Action.AUTHENTICATED,  # of the tenants that the user may see
    ("GET", "console:invoices"): Action.TENANT_ADMIN,
    ("GET", "console:invoice"): Action.TENANT_ADMIN,
    ("GET", "console:invoice_pdf"): Action.TENANT_ADMIN,
    ("GET", "console:invoice_html"): Action.TENANT_ADMIN,
    ("GET", "console:invoice_json"): Action.TENANT_ADMIN,
    ("GET", "console:platform"): Action.SUPERUSER,
    ("GET", "console:platform_fragment"): Action.SUPERUSER,
}
