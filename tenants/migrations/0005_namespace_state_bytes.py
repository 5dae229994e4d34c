from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_feed_kept_bytes")]

    operations = [
        migrations.AddField(model_name="namespace", name="state_bytes", field=models.IntegerField(default=0)),
    ]
