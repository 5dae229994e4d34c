"""The audit log becomes a chain that only grows: what is there gets its places and hashes, and triggers refuse changes from then on."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from tenants.audit.links import NOTHING_BEFORE, hash_of
from tenants.audit.triggers import installing, removing

_ROWS_AT_ONCE = 1_000


def chain(apps: Any, schema_editor: Any) -> None:
    """Ids become places without gaps. They only get smaller, so in their order none is taken yet."""
    record_model, chain_model = apps.get_model("tenants", "AuditRecord"), apps.get_model("tenants", "AuditChain")
    end = chain_model(id=1, sequence=0, hash=NOTHING_BEFORE)
    last_of_tenant: dict[str, str] = {}
    read = 0
    while rows := list(record_model.unscoped.filter(id__gt=read).order_by("id")[:_ROWS_AT_ONCE]):
        updates = []
        for row in rows:
            read = row.id
            end.sequence += 1
            row.id, row.at = end.sequence, max(row.at, end.at or row.at)
            row.previous_hash, row.tenant_previous_hash = end.hash, last_of_tenant.get(row.tenant_uid, NOTHING_BEFORE)
            row.hash = end.hash = last_of_tenant[row.tenant_uid] = hash_of(row)
            end.at = row.at
            at = schema_editor.connection.ops.adapt_datetimefield_value(row.at)
            updates.append((row.id, at, row.previous_hash, row.tenant_previous_hash, row.hash, read))
        with schema_editor.connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE tenants_auditrecord SET id = %s, at = %s, previous_hash = %s, tenant_previous_hash = %s, hash = %s "
                "WHERE id = %s",
                updates,
            )
    if end.sequence:
        end.save()


def refuse_changes(apps: Any, schema_editor: Any) -> None:
    for statement in installing(schema_editor.connection.vendor):
        schema_editor.execute(statement, params=None)


def allow_changes(apps: Any, schema_editor: Any) -> None:
    for statement in removing(schema_editor.connection.vendor):
        schema_editor.execute(statement, params=None)


def _hash() -> models.CharField[str, str]:
    return models.CharField(default=NOTHING_BEFORE, max_length=64)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0012_roles")]

    operations = [
        migrations.CreateModel(
            name="AuditChain",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", _hash()),
                ("at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("hash", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
                ("statement", models.TextField()),
            ],
            options={"ordering": ["-sequence"]},
        ),
        migrations.CreateModel(
            name="AuditCheckpoint",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("hash", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
                ("records", models.BigIntegerField()),
                ("statement", models.TextField()),
            ],
            options={"ordering": ["-sequence"]},
        ),
        migrations.AlterField("auditrecord", "id", models.BigAutoField(primary_key=True, serialize=False)),
        migrations.AlterField("auditrecord", "at", models.DateTimeField()),
        migrations.AddField("auditrecord", "previous_hash", _hash()),
        migrations.AddField("auditrecord", "tenant_previous_hash", _hash()),
        migrations.AddField("auditrecord", "hash", _hash()),
        migrations.RunPython(chain, migrations.RunPython.noop),
        migrations.AlterField("auditrecord", "previous_hash", models.CharField(max_length=64)),
        migrations.AlterField("auditrecord", "tenant_previous_hash", models.CharField(max_length=64)),
        migrations.AlterField("auditrecord", "hash", models.CharField(max_length=64)),
        migrations.AddIndex("auditrecord", models.Index(fields=["tenant_uid", "key_id", "-id"], name="audit_by_key")),
        migrations.AddIndex("auditrecord", models.Index(fields=["tenant_uid", "resource", "-id"], name="audit_by_resource")),
        migrations.AddIndex("auditrecord", models.Index(fields=["request_id"], name="audit_by_request")),
        migrations.AddIndex("auditrecord", models.Index(fields=["at"], name="audit_by_time")),
        migrations.RunPython(refuse_changes, allow_changes),
    ]
