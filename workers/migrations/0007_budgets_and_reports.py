"""Budgets, their alerts, and reports."""


import django.db.models.deletion
import django.db.models.manager
import workers.of_tenant
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0006_month_charge'),
    ]

    operations = [
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('currency', models.CharField(max_length=3)),
                ('amount_minor', models.PositiveBigIntegerField()),
                ('namespace', models.CharField(blank=True, max_length=511)),
                ('thresholds', models.JSONField(default=list)),
                ('emails', models.JSONField(default=list)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['name'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='ReportSchedule',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('every', models.CharField(choices=[('day', 'Day'), ('week', 'Week'), ('month', 'Month')], max_length=8)),
                ('by', models.CharField(max_length=80)),
                ('emails', models.JSONField(default=list)),
                ('made_until', models.DateField()),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['name'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='Report',
            fields=[
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('id', models.CharField(default=workers.of_tenant.new_id, max_length=32, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('by', models.CharField(max_length=80)),
                ('first', models.DateField()),
                ('last', models.DateField()),
                ('runs', models.JSONField(default=list)),
                ('files', models.JSONField(default=list)),
                ('made_at', models.DateTimeField()),
                ('delivered', models.CharField(blank=True, max_length=200)),
                ('schedule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='reports', to='workers.reportschedule')),
            ],
            options={
                'ordering': ['-made_at'],
                'abstract': False,
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'constraints': [models.UniqueConstraint(fields=('schedule', 'first'), name='one_report_a_schedule_and_span')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='SpendAlert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField()),
                ('threshold', models.PositiveSmallIntegerField()),
                ('likely', models.BooleanField()),
                ('amount_minor', models.BigIntegerField()),
                ('at', models.DateTimeField()),
                ('delivered', models.CharField(blank=True, max_length=200)),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='workers.budget')),
            ],
            options={
                'ordering': ['-at'],
                'constraints': [models.UniqueConstraint(fields=('budget', 'month', 'threshold', 'likely'), name='one_alert_a_threshold')],
            },
        ),
    ]
