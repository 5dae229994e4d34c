"""Tenants get an identity that no later tenant of the same name shares, and the audit log says which tenant it speaks of.

What is in the audit log from before a living tenant was created is of a former one of its name, and stays nobody's.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

import tenants.models.tenant


def fill(apps: Any, schema_editor: Any) -> None:
    tenant_model, record_model = apps.get_model("tenants", "Tenant"), apps.get_model("tenants", "AuditRecord")
    for tenant in tenant_model.unscoped.all():
        tenant.uid = tenants.models.tenant.new_uid()
        tenant.save(update_fields=["uid"])
        record_model.unscoped.filter(tenant=tenant.name, at__gte=tenant.created_at).update(tenant_uid=tenant.uid)
    # Brokers hold states without it: they are to take everything anew.
    for head in apps.get_model("tenants", "FeedHead").objects.all():
        head.version += 1
        head.compacted_version = head.version
        head.save()
    apps.get_model("tenants", "OutboxChange").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.RemoveIndex("auditrecord", "audit_of_tenant"),
        migrations.AddField("auditrecord", "tenant_uid", models.CharField(blank=True, default="", max_length=32)),
        migrations.AddField("auditrecord", "address", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("tenant", "uid", models.CharField(default="", editable=False, max_length=32)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AlterField(
            "tenant", "uid", models.CharField(default=tenants.models.tenant.new_uid, editable=False, max_length=32, unique=True)
        ),
        migrations.AddIndex("auditrecord", models.Index(fields=["tenant_uid", "-id"], name="audit_of_tenant")),
        migrations.AddIndex("auditrecord", models.Index(fields=["tenant_uid", "action", "-id"], name="audit_by_action")),
        migrations.AddIndex("auditrecord", models.Index(fields=["tenant_uid", "role", "-id"], name="audit_by_role")),
        migrations.RemoveField("key", "last_used_at"),
    ]
