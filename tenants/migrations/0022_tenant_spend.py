from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0021_token_issuers'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='spend',
            field=models.JSONField(default=dict),
        ),
    ]
