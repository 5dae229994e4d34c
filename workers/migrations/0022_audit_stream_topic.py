from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0021_spend_caps'),
    ]

    operations = [
        migrations.AddField(
            model_name='auditstream',
            name='topic',
            field=models.CharField(blank=True, default='', max_length=797),
        ),
        migrations.AlterField(
            model_name='auditstream',
            name='url',
            field=models.CharField(blank=True, default='', max_length=2000),
        ),
    ]
