"""All tasks: the name, the function, and the setting with the interval of each."""

from __future__ import annotations

from typing import NamedTuple

EXPIRE_MESSAGES = "workers.expire_messages"
COLLECT_USAGE = "workers.collect_usage"
RUN_USAGE_JOB = "workers.run_usage_job"
COLLECT_AUDIT = "workers.collect_audit"
COMPACT_TOPICS = "workers.compact_topics"
MAKE_INVOICES = "workers.make_invoices"


class TaskEntry(NamedTuple):
    """`work` is "module:function", imported when the task first runs. `interval` names a setting, in seconds."""

    name: str
    title: str
    work: str
    interval: str


TASKS: tuple[TaskEntry, ...] = (
    TaskEntry(EXPIRE_MESSAGES, "Expire messages and trim topics", "workers.tasks.expiry:expire_messages", "expiry_interval_s"),
    TaskEntry(COMPACT_TOPICS, "Compact topics", "workers.tasks.compaction:compact_topics", "compaction_interval_s"),
    TaskEntry(COLLECT_USAGE, "Collect usage", "workers.tasks.usage:collect_usage", "usage_interval_s"),
    TaskEntry(RUN_USAGE_JOB, "Compute hourly usage", "workers.tasks.usage_job:run_usage_job", "usage_job_interval_s"),
    TaskEntry(MAKE_INVOICES, "Draft invoices and close months", "workers.tasks.billing:make_invoices", "billing_interval_s"),
    TaskEntry(COLLECT_AUDIT, "Write the broker's events to the audit log", "workers.tasks.audit:collect_audit", "audit_interval_s"),
)
