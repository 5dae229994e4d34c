import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0023_namespace_bundles'),
    ]

    operations = [
        migrations.AddField(
            model_name='namespace',
            name='restored_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name='Recycled',
            fields=[
                ('id', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=16)),
                ('name', models.CharField(max_length=511, unique=True)),
                ('tenant', models.CharField(max_length=255)),
                ('tenant_uid', models.CharField(max_length=32)),
                ('deleted_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('deleted_by', models.CharField(max_length=600)),
                ('purging', models.BooleanField(default=False)),
                ('counts', models.JSONField(default=dict)),
            ],
            options={
                'ordering': ['id'],
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['tenant', 'kind', 'id'], name='recycled_of_tenant'), models.Index(fields=['expires_at'], name='recycled_by_end')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='RecycledRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(max_length=100)),
                ('key', models.CharField(max_length=784)),
                ('row', models.JSONField()),
                ('recycled', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='tenants.recycled')),
            ],
            options={
                'ordering': ['id'],
                'base_manager_name': 'unscoped',
                'default_manager_name': 'unscoped',
                'indexes': [models.Index(fields=['model', 'key'], name='recycled_row_of')],
            },
            managers=[
                ('unscoped', django.db.models.manager.Manager()),
            ],
        ),
    ]
