from __future__ import annotations

from django.apps import AppConfig


class AdminUiConfig(AppConfig):
    name = "admin_ui"
    verbose_name = "Console"

    def ready(self) -> None:
        from admin_ui.sign_in import trail

        trail.connect()
