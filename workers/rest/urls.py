"""/api/v1: what workers have. Permissions: `workers.rest.permissions`."""

from __future__ import annotations

from django.urls import path

from tenants.rest.lazy import LazyView
from tenants.rest.urls import TENANT, TOPIC

urlpatterns = [
    path("tasks", LazyView("workers.rest.tasks:Tasks"), name="tasks"),
    path("task-runs", LazyView("workers.rest.tasks:TaskRuns"), name="task-runs"),
    path("task-runs/<segment:run_id>", LazyView("workers.rest.tasks:TaskRunOne"), name="task-run"),
    path("task-runs/<segment:run_id>/requeue", LazyView("workers.rest.tasks:TaskRunRequeue"), name="task-run-requeue"),
    path("jobs", LazyView("workers.jobs.rest:PlatformJobs"), name="jobs"),
    path("jobs/<segment:job_id>", LazyView("workers.jobs.rest:PlatformJob"), name="job"),
    path(f"{TENANT}/jobs", LazyView("workers.jobs.rest:TenantJobs"), name="tenant-jobs"),
    path(f"{TENANT}/jobs/<segment:job_id>", LazyView("workers.jobs.rest:TenantJob"), name="tenant-job"),
    path("audit/verification", LazyView("workers.rest.audit:AuditVerification"), name="audit-verification"),
    path("audit/stream", LazyView("workers.audit_streams.rest:PlatformAuditStream"), name="platform-audit-stream"),
    path(f"{TENANT}/audit/stream", LazyView("workers.audit_streams.rest:AuditStreams"), name="audit-stream"),
    path("notices", LazyView("workers.alerts.rest:PlatformNotices"), name="platform-notices"),
    path("notifications", LazyView("workers.alerts.rest:PlatformNotifications"), name="platform-notifications"),
    path(f"{TENANT}/members/<segment:username>/made", LazyView("workers.made.rest:MadeByMember"), name="member-made"),
    path(f"{TENANT}/alert-rules", LazyView("workers.alerts.rest:AlertRules"), name="alert-rules"),
    path(f"{TENANT}/alert-rules/<segment:rule>", LazyView("workers.alerts.rest:AlertRuleOne"), name="alert-rule"),
    path(
        f"{TENANT}/alert-rules/<segment:rule>/restore", LazyView("workers.alerts.rest:AlertRuleRestore"), name="alert-rule-restore"
    ),
    path(
        f"{TENANT}/alert-rules/<segment:rule>/silence", LazyView("workers.alerts.rest:AlertRuleSilence"), name="alert-rule-silence"
    ),
    path(
        f"{TENANT}/alert-rules/<segment:rule>/notices", LazyView("workers.alerts.rest:AlertRuleNotices"), name="alert-rule-notices"
    ),
    path(f"{TENANT}/notices", LazyView("workers.alerts.rest:Notices"), name="notices"),
    path(f"{TENANT}/notices/replays", LazyView("workers.alerts.rest:NoticeReplays"), name="notice-replays"),
    path(f"{TENANT}/notices/<segment:notice>/replay", LazyView("workers.alerts.rest:NoticeReplay"), name="notice-replay"),
    path(f"{TENANT}/notifications", LazyView("workers.alerts.rest:Notifications"), name="notifications"),
    path(f"{TENANT}/notifications/test", LazyView("workers.alerts.rest:NotificationsTest"), name="notifications-test"),
    path(f"{TENANT}/dead-letters", LazyView("workers.redrive.rest:DeadLetters"), name="dead-letters"),
    path(f"{TENANT}/dead-letters/messages", LazyView("workers.redrive.rest:DeadLetterMessages"), name="dead-letter-messages"),
    path(f"{TENANT}/dead-letters/redrives", LazyView("workers.redrive.rest:DeadLetterRedrives"), name="dead-letter-redrives"),
    path(f"{TOPIC}/redrives", LazyView("workers.redrive.rest:Redrives"), name="redrives"),
    path(f"{TOPIC}/redrives/dry-run", LazyView("workers.redrive.rest:RedriveDryRun"), name="redrive-dry-run"),
    path(f"{TOPIC}/redrives/<segment:job>", LazyView("workers.redrive.rest:RedriveOne"), name="redrive"),
    path(f"{TOPIC}/redrives/<segment:job>/pause", LazyView("workers.redrive.rest:RedrivePause"), name="redrive-pause"),
    path(f"{TOPIC}/redrives/<segment:job>/resume", LazyView("workers.redrive.rest:RedriveResume"), name="redrive-resume"),
    path(f"{TOPIC}/redrives/<segment:job>/outcomes", LazyView("workers.redrive.rest:RedriveOutcomes"), name="redrive-outcomes"),
]
