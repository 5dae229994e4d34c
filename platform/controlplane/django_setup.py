"""Django in this process, on the settings of the platform."""

from __future__ import annotations

import os

from controlplane import current
from messaging.settings import Settings


def set_up(settings: Settings, module: str = "controlplane.settings") -> None:
    """Models, actions and views may be imported after this, and not before. Does nothing where Django is ready already."""
    from django.apps import apps

    if apps.ready:
        return
    current.use(settings)
    os.environ["DJANGO_SETTINGS_MODULE"] = module
    import django

    django.setup()
