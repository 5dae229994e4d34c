import django.db.models.manager
import workers.of_tenant
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0020_audit_streams'),
    ]

    operations = [
        migrations.CreateModel(
            name='SpendCap',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('set_by', models.CharField(choices=[('platform', 'Platform'), ('tenant', 'Tenant')], max_length=16)),
                ('currency', models.CharField(max_length=3)),
                ('amount_minor', models.PositiveBigIntegerField()),
                ('action', models.CharField(choices=[('throttle', 'Throttle'), ('stop', 'Stop')], max_length=16)),
                ('rates', models.JSONField(default=dict)),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.CharField(max_length=511)),
            ],
            options={
                'ordering': ['set_by'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant_uid', 'set_by'), name='one_spend_cap_of_each')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
