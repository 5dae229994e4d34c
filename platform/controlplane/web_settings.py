"""Settings of the web process: the same, without the app that brings Celery (0.3 s and 10 MiB that no page needs)."""

from controlplane.settings import *  # noqa: F403
from controlplane.settings import INSTALLED_APPS as _ALL_APPS

INSTALLED_APPS = [app for app in _ALL_APPS if app != "django_celery_beat"]
