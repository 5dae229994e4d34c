from typing import Any

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


def name_roles(apps: Any, schema_editor: Any) -> None:
    """Members saw everything but what messages hold, and changed nothing: that is the role `metadata`."""
    apps.get_model("tenants", "Membership")._base_manager.filter(role="member").update(role="metadata")


def name_levels(apps: Any, schema_editor: Any) -> None:
    memberships = apps.get_model("tenants", "Membership")._base_manager
    memberships.exclude(role="owner").update(role="member")


class Migration(migrations.Migration):

    dependencies = [
        ("tenants", "0011_dynamic_settings"),
    ]

    operations = [
        migrations.CreateModel(
            name="CustomRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                ("description", models.CharField(blank=True, default="", max_length=200)),
                ("actions", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="custom_roles", to="tenants.tenant"),
                ),
            ],
            options={
                "ordering": ["tenant_id", "name"],
                "default_manager_name": "unscoped",
                "base_manager_name": "unscoped",
                "constraints": [models.UniqueConstraint(fields=("tenant", "name"), name="one_custom_role_a_name")],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.RenameField(model_name="membership", old_name="level", new_name="role"),
        migrations.AlterField(
            model_name="membership", name="role", field=models.CharField(default="metadata", max_length=255)
        ),
        migrations.AddField(
            model_name="membership",
            name="namespace",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="memberships",
                to="tenants.namespace",
            ),
        ),
        migrations.AddField(
            model_name="membership", name="topics", field=models.CharField(blank=True, default="", max_length=255)
        ),
        migrations.RunPython(name_roles, name_levels),
    ]
