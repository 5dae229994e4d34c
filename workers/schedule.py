"""What runs, and when: all tasks, each with its function, how often it runs, in which pool, and what becomes of one that fails.

Nothing runs at a time of day. A task of the schedule runs again so many seconds after it ran last: the setting that it names, whose
default `messaging/settings.py` and docs/configuration.md have. The page of tasks of the console says when each ran."""

from __future__ import annotations

from typing import NamedTuple

EXPIRE_MESSAGES = "workers.expire_messages"
COLLECT_USAGE = "workers.collect_usage"
RUN_USAGE_JOB = "workers.run_usage_job"
COLLECT_AUDIT = "workers.collect_audit"
COMPACT_TOPICS = "workers.compact_topics"
KEEP_AUDIT = "workers.keep_audit"
COLLECT_HISTORY = "workers.collect_history"
END_MEMBERSHIPS = "workers.end_memberships"
COLLECT_KEY_USES = "workers.collect_key_uses"
REFRESH_ISSUERS = "workers.refresh_issuers"
VERIFY_AUDIT = "workers.verify_audit"
STREAM_AUDIT = "workers.stream_audit"
SEND_AUDIT = "workers.send_audit"
WRITE_POLICY_EVENTS = "workers.write_policy_events"
MAKE_INVOICES = "workers.make_invoices"
MAKE_REPORTS = "workers.make_reports"
REDRIVE = "workers.redrive"
EVALUATE_ALERTS = "workers.evaluate_alerts"
NOTICE_KEYS = "workers.notice_keys"
SEND_NOTICE = "workers.send_notice"
FORGET_OLD = "workers.forget_old"
REFRESH_PROVIDER_LOGINS = "workers.refresh_provider_logins"

QUEUE = "magnetar"  # of tasks that name none
MAINTENANCE, USAGE, BILLING, CONTROL = "magnetar.maintenance", "magnetar.usage", "magnetar.billing", "magnetar.control"
REDRIVES, NOTICES = "magnetar.redrives", "magnetar.notices"


class Pool(NamedTuple):
    """Queues whose tasks share threads, and how many those are: one for each kind of task that may be long, and some for what
    passes quickly. Tasks of other pools, however long they take, do not hold up those of this one."""

    queues: tuple[str, ...]
    threads: int


POOLS: dict[str, Pool] = {
    "control": Pool((CONTROL, QUEUE), 6),
    "maintenance": Pool((MAINTENANCE,), 3),
    "usage": Pool((USAGE, BILLING), 5),
    "redrives": Pool((REDRIVES,), 4),
    "notices": Pool((NOTICES,), 4),
}


class TaskEntry(NamedTuple):
    """`work` is "module:function", imported when the task first runs. `interval` names a setting, in seconds; "": the task runs
    only when it is asked for. `ids`: its arguments, each the id of a row or a name. `turn`: as `work`, says whose turn a run
    takes, for tasks that any number of tenants may ask for: `workers.carriers` has them.

    A run whose worker died is taken up again. One that failed is repeated: after `retry_s`, and then after twice as long each time,
    up to an hour; after `task_attempts_max` failures it is quarantined, or left to the schedule where there is an `interval`.
    0: it is not repeated, because the schedule soon does the same."""

    name: str
    title: str
    work: str
    interval: str
    queue: str = QUEUE
    ids: tuple[str, ...] = ()
    retry_s: int = 0
    turn: str = ""


TASKS: tuple[TaskEntry, ...] = (
    TaskEntry(
        EXPIRE_MESSAGES, "Expire messages and trim topics", "workers.tasks.expiry:expire_messages", "expiry_interval_s", MAINTENANCE
    ),
    TaskEntry(COMPACT_TOPICS, "Compact topics", "workers.tasks.compaction:compact_topics", "compaction_interval_s", MAINTENANCE),
    TaskEntry(COLLECT_USAGE, "Collect usage", "workers.tasks.usage:collect_usage", "usage_interval_s", USAGE),
    TaskEntry(
        RUN_USAGE_JOB,
        "Compute hourly usage",
        "workers.tasks.usage_job:run_usage_job",
        "usage_job_interval_s",
        USAGE,
        retry_s=120,
    ),
    TaskEntry(
        MAKE_INVOICES, "Draft invoices and close months", "workers.tasks.billing:make_invoices", "billing_interval_s", BILLING
    ),
    TaskEntry(MAKE_REPORTS, "Check budgets and make reports", "workers.tasks.reports:make_reports", "billing_interval_s", BILLING),
    TaskEntry(
        COLLECT_AUDIT,
        "Write the broker's events to the audit log",
        "workers.tasks.audit:collect_audit",
        "audit_interval_s",
        CONTROL,
    ),
    TaskEntry(
        END_MEMBERSHIPS,
        "Remove members and grants whose time is over",
        "workers.tasks.memberships:end_memberships",
        "membership_interval_s",
        CONTROL,
    ),
    TaskEntry(
        COLLECT_KEY_USES,
        "Write down which keys were used",
        "workers.tasks.key_uses:collect_key_uses",
        "key_use_interval_s",
        CONTROL,
    ),
    TaskEntry(
        COLLECT_HISTORY,
        "Write down what topics carried and held",
        "workers.tasks.history:collect_history",
        "history_interval_s",
        CONTROL,
    ),
    TaskEntry(
        REFRESH_ISSUERS,
        "Fetch the keys of tenants' issuers",
        "workers.tasks.issuers:refresh_issuers",
        "issuer_refresh_interval_s",
        NOTICES,
    ),
    TaskEntry(
        KEEP_AUDIT,
        "Sign the end of the audit log, delete old records",
        "workers.tasks.audit_keeping:keep_audit",
        "audit_head_interval_s",
        CONTROL,
    ),
    TaskEntry(VERIFY_AUDIT, "Verify the audit log", "workers.tasks.audit_keeping:verify_audit", "audit_verify_interval_s", CONTROL),
    TaskEntry(
        STREAM_AUDIT,
        "Look for audit records to be streamed",
        "workers.audit_streams.task:stream_audit",
        "audit_stream_interval_s",
        CONTROL,
    ),
    TaskEntry(
        SEND_AUDIT,
        "Stream audit records",
        "workers.audit_streams.task:send_audit",
        "",
        NOTICES,
        ids=("stream",),
        retry_s=30,
        turn="workers.audit_streams.task:turn_of",
    ),
    TaskEntry(
        WRITE_POLICY_EVENTS,
        "Write changes of topic policies to event topics",
        "workers.tasks.policy_events:write_policy_events",
        "repeat_interval_s",
        CONTROL,
    ),
    TaskEntry(
        REDRIVE,
        "Redrive dead letters",
        "workers.redrive.task:redrive",
        "",
        REDRIVES,
        ids=("job",),
        retry_s=5,
        turn="workers.redrive.task:turn_of",
    ),
    TaskEntry(EVALUATE_ALERTS, "Evaluate alert rules", "workers.alerts.tasks:evaluate_alerts", "alert_interval_s", CONTROL),
    TaskEntry(
        NOTICE_KEYS, "Notice keys that expire", "workers.alerts.tasks:notice_expiring_keys", "key_notice_interval_s", CONTROL
    ),
    TaskEntry(
        SEND_NOTICE,
        "Send notices",
        "workers.alerts.tasks:send_notice",
        "",
        NOTICES,
        ids=("notice",),
        retry_s=30,
        turn="workers.alerts.tasks:turn_of",
    ),
    TaskEntry(
        REFRESH_PROVIDER_LOGINS,
        "Ask sign-in providers who still may sign in",
        "workers.tasks.provider_logins:refresh_provider_logins",
        "provider_refresh_interval_s",
        CONTROL,
    ),
    TaskEntry(FORGET_OLD, "Forget old runs and versions", "workers.tasks.forgetting:forget_old", "forget_interval_s", CONTROL),
)
BY_NAME: dict[str, TaskEntry] = {entry.name: entry for entry in TASKS}
QUEUES: tuple[str, ...] = tuple(sorted({QUEUE, *(entry.queue for entry in TASKS)}))
_POOL_OF_QUEUE: dict[str, str] = {queue: name for name, pool in POOLS.items() for queue in pool.queues}
WAIT_S_MAX = 3600


def pool_of(entry: TaskEntry) -> str:
    return _POOL_OF_QUEUE[entry.queue]


def wait_s(entry: TaskEntry, attempts: int) -> int:
    """How long after its failed attempt number `attempts` a task is repeated."""
    return min(entry.retry_s << min(attempts - 1, 20), WAIT_S_MAX)


def key_of(name: str, arguments: dict[str, str]) -> str:
    """Of what one run at a time is running: a task, or a task with these ids."""
    entry = BY_NAME.get(name)
    return ":".join([name, *(arguments[field] for field in entry.ids if field in arguments)]) if entry is not None else name
