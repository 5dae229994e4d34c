"""The web process's routes, for the pages that are made from them."""

from __future__ import annotations

import os
import tempfile


def load_routes() -> None:
    """With secrets of their own, unless somebody did already."""
    import django
    from django.apps import apps

    if apps.ready:
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    os.environ["MAGNETAR_DATA_DIR"] = tempfile.mkdtemp(prefix="docs-")

    from controlplane.current import settings
    from messaging.identity import create_secrets

    create_secrets(settings())
    django.setup()
