"""/api/v1 of all applications: what the OpenAPI document describes."""

from __future__ import annotations

from django.urls import include, path

from tenants.rest.urls import urlpatterns as of_tenants
from workers.rest.urls import urlpatterns as of_workers

urlpatterns = [
    path("api/v1/", include(([*of_tenants, *of_workers], "api"))),
    path("api/v1/", include("workers.rest.billing_urls")),
]
