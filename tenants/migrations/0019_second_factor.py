from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0018_people'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='second_factor_required',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='user',
            name='has_second_factor',
            field=models.BooleanField(default=False),
        ),
    ]
