"""Django's settings in the worker: the same, without what only pages need (5 MiB and 0.1 s)."""

from controlplane.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "tenants", "workers", "django_celery_beat"]
MAGNETAR_SERVICE = "worker"
