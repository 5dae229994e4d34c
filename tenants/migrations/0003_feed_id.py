import tenants.models.feed
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_tenant_uid")]

    operations = [
        migrations.AddField(
            model_name="feedhead",
            name="feed_id",
            field=models.CharField(default=tenants.models.feed.new_feed_id, max_length=32),
        ),
    ]
