"""Up to where the audit events of a broker are in the audit log."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0002_tenant_uid")]

    operations = [
        migrations.CreateModel(
            name="AuditCursor",
            fields=[
                ("broker_id", models.CharField(max_length=510, primary_key=True, serialize=False)),
                ("boot_id", models.CharField(max_length=64)),
                ("sequence", models.PositiveBigIntegerField()),
            ],
        ),
    ]
