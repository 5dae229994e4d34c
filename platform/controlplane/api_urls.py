"""/api/v1 of all applications: what the OpenAPI document describes."""

from __future__ import annotations

from django.urls import include, path

from admin_ui.sign_in.rest.urls import urlpatterns as of_people
from tenants.rest.urls import urlpatterns as of_tenants
from workers.rest.urls import urlpatterns as of_workers

urlpatterns = [
    path("api/v1/", include(([*of_tenants, *of_workers, *of_people], "api"))),
    path("api/v1/", include("workers.rest.billing_urls")),
]
