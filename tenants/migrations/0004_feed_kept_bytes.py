from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_feed_id")]

    operations = [
        migrations.AddField(model_name="feedhead", name="kept_bytes", field=models.BigIntegerField(default=0)),
    ]
