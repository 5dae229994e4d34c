from __future__ import annotations

from django.apps import AppConfig

from tenants import maintenance_requests


class WorkersConfig(AppConfig):
    name = "workers"
    verbose_name = "Workers and usage"

    def ready(self) -> None:
        from workers.requests import request_compactions, request_issuer_keys, request_policy_events

        maintenance_requests.begun_by[maintenance_requests.COMPACTION] = request_compactions
        maintenance_requests.begun_by[maintenance_requests.POLICY_EVENTS] = request_policy_events
        maintenance_requests.begun_by[maintenance_requests.ISSUER_KEYS] = request_issuer_keys
