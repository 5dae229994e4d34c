
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0013_audit_chain'),
    ]

    operations = [
        migrations.AddField(
            model_name='key',
            name='networks',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='key',
            name='replaces',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='replaced_by', to='tenants.key'),
        ),
        migrations.AddField(
            model_name='key',
            name='scope',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
    ]
