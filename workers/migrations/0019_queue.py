"""The table of runs becomes the queue: when a run is due, and the key of which one run at a time is running."""

from datetime import timedelta
from typing import Any

from django.db import migrations, models
from django.utils import timezone

REPEATED = ("workers.redrive", "workers.send_notice")


def forwards(apps: Any, schema_editor: Any) -> None:
    """What had not ended: tasks that are repeated are due again, the others are left to the schedule."""
    TaskRun = apps.get_model("workers", "TaskRun")
    UsageRun = apps.get_model("workers", "UsageRun")
    now = timezone.now()
    why = "it was not finished before an upgrade; the next run does the same work"
    TaskRun.objects.exclude(outcome="retrying").update(due_at=None)
    TaskRun.objects.filter(name__in=REPEATED, outcome="queued").update(due_at=now)
    TaskRun.objects.filter(name__in=REPEATED, outcome="running").update(outcome="retrying", due_at=now + timedelta(minutes=1))
    TaskRun.objects.filter(outcome__in=("queued", "running"), due_at=None).update(
        outcome="failed", finished_at=now, summary={"why": why}
    )
    UsageRun.objects.filter(outcome__in=("requested", "running")).update(outcome="failed", finished_at=now, message=why)


class Migration(migrations.Migration):
    dependencies = [("workers", "0018_alert_partitions")]

    operations = [
        migrations.RenameField("taskrun", "next_try_at", "due_at"),
        migrations.AddField("taskrun", "key", models.CharField(max_length=250, default="")),
        migrations.RunPython(forwards, migrations.RunPython.noop),
        migrations.AddIndex(
            "taskrun",
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="task_run_by_due"),
        ),
        migrations.AddConstraint(
            "taskrun",
            models.UniqueConstraint(fields=["key"], condition=models.Q(outcome="running"), name="one_run_of_a_key_at_a_time"),
        ),
        migrations.DeleteModel("TaskLease"),
    ]
