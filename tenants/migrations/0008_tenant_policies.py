from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0007_topic_policies")]

    operations = [migrations.AddField(model_name="tenant", name="policies", field=models.JSONField(default=dict))]
