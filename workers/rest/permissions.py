"""The permission of each route of /api/v1 that workers have, as in `tenants.rest.permissions`.

The routes are in `workers.rest.urls` and `billing_urls`.
"""

from __future__ import annotations

from messaging.permissions.model import Action

_API: dict[tuple[str, str], Action] = {
    ("GET", "api:platform-notices"): Action.SUPERUSER,
    ("GET", "api:platform-notifications"): Action.SUPERUSER,  # with the secret that signs
    ("PUT", "api:platform-notifications"): Action.SUPERUSER,
    ("GET", "api:audit-verification"): Action.SUPERUSER,
    ("POST", "api:audit-verification"): Action.SUPERUSER,
    ("GET", "api:platform-audit-stream"): Action.SUPERUSER,  # with the secret that signs
    ("PUT", "api:platform-audit-stream"): Action.SUPERUSER,
    ("DELETE", "api:platform-audit-stream"): Action.SUPERUSER,
    ("GET", "api:audit-stream"): Action.TENANT_ADMIN,  # the same
    ("PUT", "api:audit-stream"): Action.TENANT_ADMIN,  # and AUDIT_READ: what is sent there is read there
    ("DELETE", "api:audit-stream"): Action.TENANT_ADMIN,
    ("GET", "api:member-made"): Action.TENANT_ADMIN,  # of billing, redrives and the log's stream who may see those
    ("GET", "api:tasks"): Action.SUPERUSER,
    ("GET", "api:task-runs"): Action.SUPERUSER,
    ("GET", "api:task-run"): Action.SUPERUSER,
    ("DELETE", "api:task-run"): Action.SUPERUSER,
    ("POST", "api:task-run-requeue"): Action.SUPERUSER,
    ("GET", "api:jobs"): Action.SUPERUSER,
    ("GET", "api:job"): Action.SUPERUSER,
    ("DELETE", "api:job"): Action.SUPERUSER,
    ("GET", "api:tenant-jobs"): Action.TENANT_READ,  # and OPERATE for redrives
    ("GET", "api:tenant-job"): Action.TENANT_READ,  # the same
    ("DELETE", "api:tenant-job"): Action.OPERATE,
    ("GET", "api:alert-rules"): Action.TENANT_READ,
    ("POST", "api:alert-rules"): Action.OPERATE,
    ("GET", "api:alert-rule"): Action.TENANT_READ,
    ("PATCH", "api:alert-rule"): Action.OPERATE,
    ("DELETE", "api:alert-rule"): Action.OPERATE,
    ("POST", "api:alert-rule-restore"): Action.OPERATE,
    ("PUT", "api:alert-rule-silence"): Action.OPERATE,
    ("DELETE", "api:alert-rule-silence"): Action.OPERATE,
    ("GET", "api:alert-rule-notices"): Action.TENANT_READ,
    ("GET", "api:notices"): Action.TENANT_READ,
    ("POST", "api:notice-replays"): Action.OPERATE,
    ("POST", "api:notice-replay"): Action.OPERATE,
    ("GET", "api:notifications"): Action.TENANT_ADMIN,  # with the secret that signs
    ("PUT", "api:notifications"): Action.TENANT_ADMIN,
    ("POST", "api:notifications-test"): Action.OPERATE,
    # Of redrives: and CONSUME on the topic, PRODUCE on the target, on behalf of whoever starts one
    ("GET", "api:dead-letters"): Action.OPERATE,  # in the tenant, and of each topic what a redrive of it takes
    ("GET", "api:dead-letter-messages"): Action.OPERATE,  # the same; no payloads
    ("GET", "api:dead-letter-redrives"): Action.OPERATE,
    ("POST", "api:dead-letter-redrives"): Action.OPERATE,
    ("GET", "api:redrives"): Action.OPERATE,
    ("POST", "api:redrives"): Action.OPERATE,
    ("POST", "api:redrive-dry-run"): Action.OPERATE,
    ("GET", "api:redrive"): Action.OPERATE,
    ("DELETE", "api:redrive"): Action.OPERATE,
    ("POST", "api:redrive-pause"): Action.OPERATE,
    ("POST", "api:redrive-resume"): Action.OPERATE,
    ("GET", "api:redrive-outcomes"): Action.OPERATE,
}

_BILLING: dict[tuple[str, str], Action] = {
    ("GET", "billing:price-plans"): Action.SUPERUSER,  # a tenant sees the versions that its own invoices name
    ("POST", "billing:price-plans"): Action.SUPERUSER,
    ("GET", "billing:issuer"): Action.SUPERUSER,
    ("PUT", "billing:issuer"): Action.SUPERUSER,
    ("GET", "billing:account"): Action.BILLING_READ,
    ("PATCH", "billing:account"): Action.SUPERUSER,
    ("GET", "billing:plan-assignments"): Action.BILLING_READ,
    ("POST", "billing:plan-assignments"): Action.SUPERUSER,
    ("GET", "billing:credits"): Action.BILLING_READ,
    ("POST", "billing:credits"): Action.SUPERUSER,
    ("GET", "billing:invoices"): Action.BILLING_READ,
    ("GET", "billing:invoice"): Action.BILLING_READ,
    ("POST", "billing:credit-notes"): Action.SUPERUSER,
    ("GET", "billing:line-usage"): Action.BILLING_READ,
    ("GET", "billing:usage-file"): Action.USAGE_READ,
    ("GET", "billing:usage-lines"): Action.USAGE_READ,
    ("GET", "billing:drafts"): Action.BILLING_READ,
    ("POST", "billing:drafts"): Action.BILLING_ADMIN,
    ("GET", "billing:costs"): Action.USAGE_READ,
    ("GET", "billing:estimate"): Action.USAGE_READ,
    ("GET", "billing:what-if"): Action.USAGE_READ,
    ("GET", "billing:savings"): Action.USAGE_READ,
    ("GET", "billing:budgets"): Action.BILLING_READ,  # with the addresses of those who are told
    ("POST", "billing:budgets"): Action.BILLING_ADMIN,
    ("GET", "billing:budget"): Action.BILLING_READ,
    ("PATCH", "billing:budget"): Action.BILLING_ADMIN,
    ("DELETE", "billing:budget"): Action.BILLING_ADMIN,
    ("GET", "billing:budget-alerts"): Action.BILLING_READ,
    ("GET", "billing:spend-caps"): Action.BILLING_READ,
    ("GET", "billing:spend-cap"): Action.BILLING_READ,
    ("GET", "billing:platform-spend-cap"): Action.BILLING_READ,
    ("PUT", "billing:spend-cap"): Action.BILLING_ADMIN,
    ("DELETE", "billing:spend-cap"): Action.BILLING_ADMIN,
    ("PUT", "billing:platform-spend-cap"): Action.SUPERUSER,  # a tenant cannot lift it
    ("DELETE", "billing:platform-spend-cap"): Action.SUPERUSER,
    ("GET", "billing:report-schedules"): Action.BILLING_READ,
    ("POST", "billing:report-schedules"): Action.BILLING_ADMIN,
    ("GET", "billing:report-schedule"): Action.BILLING_READ,
    ("PATCH", "billing:report-schedule"): Action.BILLING_ADMIN,
    ("DELETE", "billing:report-schedule"): Action.BILLING_ADMIN,
    ("GET", "billing:reports"): Action.BILLING_READ,
    ("GET", "billing:report"): Action.BILLING_READ,
    ("GET", "billing:report-file"): Action.BILLING_READ,
}

ACTIONS: dict[tuple[str, str], Action] = _API | _BILLING

# Routes that read, and whose answer holds keys and properties that somebody published.
PAYLOAD_READS: dict[tuple[str, str], str] = {
    ("GET", "api:dead-letters"): "message.browse",
    ("GET", "api:dead-letter-messages"): "message.browse",
}

# Under which name a request is recorded in the audit log.
AUDITED: dict[tuple[str, str], str] = {
    ("POST", "api:audit-verification"): "audit.verify",
    ("PUT", "api:platform-audit-stream"): "audit_stream.set",
    ("PUT", "api:audit-stream"): "audit_stream.set",
    ("DELETE", "api:platform-audit-stream"): "audit_stream.delete",
    ("DELETE", "api:audit-stream"): "audit_stream.delete",
    ("POST", "api:redrives"): "redrive.start",
    ("POST", "api:dead-letter-redrives"): "redrive.start",
    ("POST", "api:redrive-pause"): "redrive.pause",
    ("POST", "api:redrive-resume"): "redrive.resume",
    ("DELETE", "api:redrive"): "redrive.cancel",
    ("DELETE", "api:job"): "redrive.cancel",  # or task.discard
    ("DELETE", "api:tenant-job"): "redrive.cancel",
    ("POST", "api:alert-rules"): "alert_rule.create",
    ("PATCH", "api:alert-rule"): "alert_rule.change",
    ("DELETE", "api:alert-rule"): "alert_rule.delete",
    ("POST", "api:alert-rule-restore"): "alert_rule.restore",
    ("PUT", "api:alert-rule-silence"): "alert_rule.silence",
    ("DELETE", "api:alert-rule-silence"): "alert_rule.silence",
    ("POST", "api:notice-replays"): "notice.replay",
    ("POST", "api:notice-replay"): "notice.replay",
    ("PUT", "api:notifications"): "notifications.set",
    ("POST", "api:notifications-test"): "notifications.test",
    ("PUT", "api:platform-notifications"): "notifications.set",
    ("POST", "api:task-run-requeue"): "task.requeue",
    ("DELETE", "api:task-run"): "task.discard",
    ("POST", "billing:price-plans"): "price_plan.publish",
    ("POST", "billing:plan-assignments"): "price_plan.assign",
    ("PATCH", "billing:account"): "billing.account",
    ("PUT", "billing:issuer"): "billing.issuer",
    ("POST", "billing:credits"): "billing.credit",
    ("POST", "billing:drafts"): "invoice.compute",
    ("POST", "billing:credit-notes"): "invoice.take_back",
    ("POST", "billing:budgets"): "budget.create",
    ("PATCH", "billing:budget"): "budget.update",
    ("DELETE", "billing:budget"): "budget.delete",
    ("PUT", "billing:spend-cap"): "spend_cap.set",
    ("DELETE", "billing:spend-cap"): "spend_cap.remove",
    ("PUT", "billing:platform-spend-cap"): "spend_cap.set",
    ("DELETE", "billing:platform-spend-cap"): "spend_cap.remove",
    ("POST", "billing:report-schedules"): "report.create",
    ("PATCH", "billing:report-schedule"): "report.update",
    ("DELETE", "billing:report-schedule"): "report.delete",
} | PAYLOAD_READS

# They change nothing, although their method says otherwise.
QUESTIONS = frozenset(
    {
        ("POST", "api:redrive-dry-run"),
    }
)
