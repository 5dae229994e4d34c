"""Charges of a month, summed."""


import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0005_task_attempts'),
    ]

    operations = [
        migrations.CreateModel(
            name='MonthCharge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('meter', models.CharField(max_length=32)),
                ('quantity', models.BigIntegerField()),
                ('nano', models.BigIntegerField()),
                ('currency', models.CharField(max_length=3)),
                ('series', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='month_charges', to='workers.costseries')),
            ],
            options={
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['day', 'series'], name='charge_by_month')],
                'constraints': [models.UniqueConstraint(fields=('series', 'day', 'meter'), name='one_charge_a_month_and_meter')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
