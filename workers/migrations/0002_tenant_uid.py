"""Usage says which tenant of a name it is of: the living one, where it was there in that hour."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import migrations, models


def fill(apps: Any, schema_editor: Any) -> None:
    usage = apps.get_model("workers", "UsageHour")
    for name, uid, created_at in apps.get_model("tenants", "Tenant").unscoped.values_list("name", "uid", "created_at"):
        usage.unscoped.filter(tenant=name, hour__gt=created_at - timedelta(hours=1)).update(tenant_uid=uid)


class Migration(migrations.Migration):
    dependencies = [("workers", "0001_initial"), ("tenants", "0002_tenant_uid")]

    operations = [
        migrations.RemoveConstraint("usagehour", "usage_once_an_hour_and_topic"),
        migrations.RemoveIndex("usagehour", "usage_by_tenant_and_hour"),
        migrations.AddField("usagehour", "tenant_uid", models.CharField(blank=True, default="", max_length=32)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex("usagehour", models.Index(fields=["tenant_uid", "hour"], name="usage_by_tenant_and_hour")),
        migrations.AddConstraint(
            "usagehour", models.UniqueConstraint(fields=("hour", "tenant_uid", "topic"), name="usage_once_an_hour_and_topic")
        ),
    ]
