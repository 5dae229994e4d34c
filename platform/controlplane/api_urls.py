"""/api/v1 of all applications: what the OpenAPI document describes."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("tenants.rest.urls")),
    path("api/v1/", include("workers.billing.urls")),
]
