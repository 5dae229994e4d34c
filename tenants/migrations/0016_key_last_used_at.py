from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0015_idempotency_keys'),
    ]

    operations = [
        migrations.AddField(
            model_name='key',
            name='last_used_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
