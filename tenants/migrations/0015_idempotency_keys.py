
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0014_key_scope'),
    ]

    operations = [
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(max_length=64)),
                ('owner', models.CharField(max_length=600)),
                ('key', models.CharField(max_length=255)),
                ('digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('content', models.BinaryField(null=True)),
                ('content_type', models.CharField(blank=True, max_length=100)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['owner'], name='idempotency_by_owner'), models.Index(fields=['created_at'], name='idempotency_by_time')],
                'constraints': [models.UniqueConstraint(fields=('subject', 'key'), name='one_request_a_key')],
            },
        ),
    ]
