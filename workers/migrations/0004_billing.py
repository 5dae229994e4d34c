"""Price plans, accounts, invoices and charges."""


import django.db.models.deletion
import django.db.models.manager
import workers.of_tenant
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0003_audit_cursor'),
    ]

    operations = [
        migrations.CreateModel(
            name='Credit',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('title', models.CharField(max_length=200)),
                ('currency', models.CharField(max_length=3)),
                ('amount_minor', models.PositiveBigIntegerField()),
                ('expires', models.DateField(null=True)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['created_at'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Issuer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('details', models.JSONField(default=dict)),
                ('forgiven_minor', models.PositiveIntegerField(default=100)),
                ('year', models.PositiveIntegerField(default=0)),
                ('numbered', models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='BilledMonth',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('start', models.DateTimeField()),
                ('inputs', models.CharField(max_length=64)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant_uid', 'start'), name='one_row_a_tenant_and_month')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='BillingAccount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('details', models.JSONField(default=dict)),
                ('tax_label', models.CharField(blank=True, max_length=40)),
                ('tax_rate', models.CharField(default='0', max_length=12)),
                ('payment_days', models.PositiveSmallIntegerField(default=30)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant_uid',), name='billing_account_once')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='CostSeries',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('namespace', models.CharField(blank=True, max_length=511)),
                ('topic', models.CharField(blank=True, max_length=797)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant_uid', 'namespace', 'topic'), name='one_series_a_topic')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='HourDigest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('hour', models.DateTimeField()),
                ('run_id', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=64)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant_uid', 'hour'), name='one_digest_a_tenant_and_hour')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PlanAssignment',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('plan', models.CharField(max_length=63)),
                ('starts_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['starts_at'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('tenant_uid', 'starts_at'), name='plan_once_at_a_time')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='PricePlanVersion',
            fields=[
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('plan', models.CharField(max_length=63)),
                ('version', models.PositiveIntegerField()),
                ('title', models.CharField(max_length=200)),
                ('currency', models.CharField(max_length=3)),
                ('in_force_from', models.DateTimeField()),
                ('document', models.JSONField()),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=510)),
            ],
            options={
                'ordering': ['plan', 'version'],
                'constraints': [models.UniqueConstraint(fields=('plan', 'version'), name='price_plan_version_once')],
            },
        ),
        migrations.CreateModel(
            name='Charge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('meter', models.CharField(max_length=32)),
                ('quantity', models.BigIntegerField()),
                ('nano', models.BigIntegerField()),
                ('currency', models.CharField(max_length=3)),
                ('series', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='charges', to='workers.costseries')),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['day', 'series'], name='charge_by_day')],
                'constraints': [models.UniqueConstraint(fields=('series', 'day', 'meter'), name='one_charge_a_day_and_meter')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Invoice',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('invoice', 'Invoice'), ('credit_note', 'Credit Note')], default='invoice', max_length=16)),
                ('state', models.CharField(choices=[('draft', 'Draft'), ('final', 'Final')], default='draft', max_length=16)),
                ('number', models.CharField(max_length=32, null=True, unique=True)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('currency', models.CharField(max_length=3)),
                ('total_minor', models.BigIntegerField()),
                ('document', models.JSONField()),
                ('made_at', models.DateTimeField()),
                ('issued_at', models.DateTimeField(null=True)),
                ('of_invoice', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='credit_notes', to='workers.invoice')),
            ],
            options={
                'ordering': ['-start', '-made_at'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'invoice')), fields=('tenant_uid', 'start'), name='one_invoice_a_tenant_and_month'), models.CheckConstraint(condition=models.Q(models.Q(('number', None), ('state', 'draft')), models.Q(('number__isnull', False), ('state', 'final')), _connector='OR'), name='final_invoices_have_numbers')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
