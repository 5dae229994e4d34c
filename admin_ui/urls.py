"""Pages of the console. Each name, with each method, is a row of `admin_ui.permissions`; a test compares the
two.
"""

from __future__ import annotations

from django.urls import path, register_converter

from admin_ui.addresses import TopicConverter
from admin_ui.views import (
    alerts,
    audit,
    billing,
    budgets,
    costs,
    delayed,
    invoices,
    jump,
    keys,
    namespaces,
    people,
    platform,
    policies,
    quick_start,
    redrives,
    reports,
    session,
    subscriptions,
    tasks,
    tenants,
    topics,
    usage,
    usage_runs,
)

register_converter(TopicConverter, "topic")

app_name = "console"

_TENANT = "tenants/<str:tenant>"
_NAMESPACE = f"{_TENANT}/namespaces/<str:namespace>"
_TOPIC = f"{_NAMESPACE}/<topic:topic>"

urlpatterns = [
    path("", tenants.home, name="home"),
    path("sign-in", session.sign_in, name="sign_in"),
    path("sign-out", session.sign_out, name="sign_out"),
    path("account/password", session.password, name="password"),
    path("jump", jump.jump, name="jump"),
    path("tenants", tenants.tenants, name="tenants"),
    path("new-tenant", tenants.tenant_create, name="tenant_create"),
    path(_TENANT, tenants.tenant, name="tenant"),
    path(f"{_TENANT}/labels", tenants.tenant_labels, name="tenant_labels"),
    path(f"{_TENANT}/policies", policies.tenant_policies, name="tenant_policies"),
    path(f"{_TENANT}/delete", tenants.tenant_delete, name="tenant_delete"),
    path(f"{_TENANT}/audit", audit.audit, name="audit"),
    path(f"{_TENANT}/audit/export", audit.audit_export, name="audit_export"),
    path("audit", audit.platform_audit, name="platform_audit"),
    path("audit/export", audit.platform_audit_export, name="platform_audit_export"),
    path("audit/chain", audit.audit_chain, name="audit_chain"),
    path(f"{_TENANT}/alerts", alerts.alerts, name="alerts"),
    path(f"{_TENANT}/keys", keys.keys, name="keys"),
    path(f"{_TENANT}/new-key", keys.key_create, name="key_create"),
    path(f"{_TENANT}/keys/<str:key_id>/revoke", keys.key_revoke, name="key_revoke"),
    path(f"{_TENANT}/new-namespace", namespaces.namespace_create, name="namespace_create"),
    path(_NAMESPACE, namespaces.namespace, name="namespace"),
    path(f"{_NAMESPACE}/policies", policies.namespace_policies, name="policies"),
    path(f"{_NAMESPACE}/delete", namespaces.namespace_delete, name="namespace_delete"),
    path(f"{_NAMESPACE}/quick-start", quick_start.quick_start, name="quick_start"),
    path(f"{_NAMESPACE}/new-topic", topics.topic_create, name="topic_create"),
    path(_TOPIC, topics.topic, name="topic"),
    path(f"{_TOPIC}/detail", topics.topic_fragment, name="topic_fragment"),
    path(f"{_TOPIC}/trace", topics.topic_trace, name="topic_trace"),
    path(f"{_TOPIC}/policies", policies.topic_policies, name="topic_policies"),
    path(f"{_TOPIC}/redrives", redrives.redrives, name="redrives"),
    path(f"{_TOPIC}/redrives/detail", redrives.redrives_fragment, name="redrives_fragment"),
    path(f"{_TOPIC}/redrives/<str:job>", redrives.redrive, name="redrive"),
    path(f"{_TOPIC}/delayed", delayed.delayed, name="delayed"),
    path(f"{_TOPIC}/delayed/chart", delayed.delayed_chart, name="delayed_chart"),
    path(f"{_TOPIC}/delete", topics.topic_delete, name="topic_delete"),
    path(f"{_TOPIC}/subscriptions/<str:subscription>/dead-letters", subscriptions.dead_letters, name="dead_letter_policy"),
    path("people", people.people, name="people"),
    path("new-person", people.person_create, name="person_create"),
    path("people/<str:person>/password", people.person_password, name="person_password"),
    path("people/<str:person>/active", people.person_active, name="person_active"),
    path("usage", usage.usage, name="usage"),
    path("usage/runs", usage_runs.usage_runs, name="usage_runs"),
    path("usage/runs/<str:run>", usage_runs.usage_run, name="usage_run"),
    path("usage/evidence", usage_runs.usage_evidence, name="usage_evidence"),
    path("costs", costs.costs, name="costs"),
    path("price-plans", billing.price_plans, name="price_plans"),
    path("new-price-plan", billing.price_plan_create, name="price_plan_create"),
    path("issuer", billing.issuer, name="issuer"),
    path(f"{_TENANT}/billing", billing.billing, name="billing"),
    path(f"{_TENANT}/month", budgets.month_ahead, name="month_ahead"),
    path(f"{_TENANT}/budgets", budgets.budget_list, name="budgets"),
    path(f"{_TENANT}/budgets/<str:budget>/delete", budgets.budget_delete, name="budget_delete"),
    path(f"{_TENANT}/reports", reports.report_list, name="reports"),
    path(f"{_TENANT}/reports/<str:schedule>/delete", reports.report_delete, name="report_delete"),
    path(f"{_TENANT}/reports/<str:report>/<str:name>", reports.report_file, name="report_file"),
    path(f"{_TENANT}/invoices", invoices.invoices, name="invoices"),
    path(f"{_TENANT}/invoices/<str:invoice>", invoices.invoice, name="invoice"),
    path(f"{_TENANT}/invoices/<str:invoice>/pdf", invoices.invoice_as_pdf, name="invoice_pdf"),
    path(f"{_TENANT}/invoices/<str:invoice>/html", invoices.invoice_as_html, name="invoice_html"),
    path(f"{_TENANT}/invoices/<str:invoice>/json", invoices.invoice_json, name="invoice_json"),
    path("usage/compute", usage.usage_compute, name="usage_compute"),
    path("tasks", tasks.tasks, name="tasks"),
    path("tasks/detail", tasks.tasks_fragment, name="tasks_fragment"),
    path("tasks/<str:run_id>/decide", tasks.task_decide, name="task_decide"),
    path("platform", platform.platform, name="platform"),
    path("platform/alerts", alerts.platform_alerts, name="platform_alerts"),
    path("platform/detail", platform.platform_fragment, name="platform_fragment"),
]
