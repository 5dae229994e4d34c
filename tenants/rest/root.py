"""The part of the URL configuration that the OpenAPI document describes."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("api/v1/", include("tenants.rest.urls"))]
