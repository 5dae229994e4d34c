import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0019_second_factor'),
    ]

    operations = [
        migrations.CreateModel(
            name='ProviderLogin',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('provider', models.CharField(max_length=30)),
                ('subject', models.CharField(max_length=255)),
                ('refresh_token', models.TextField(blank=True, default='')),
                ('given', models.JSONField(default=dict)),
                ('refreshed_at', models.DateTimeField()),
                ('due_at', models.DateTimeField(blank=True, null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('why', models.CharField(blank=True, default='', max_length=200)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='provider_logins', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['provider', 'subject'],
                'indexes': [models.Index(fields=['due_at'], name='provider_login_due')],
                'constraints': [models.UniqueConstraint(fields=('provider', 'subject'), name='one_login_a_subject')],
            },
        ),
    ]
