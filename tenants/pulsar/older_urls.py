"""The one path of Pulsar's first admin API, /admin, that its tools of today still ask for."""

from __future__ import annotations

from django.urls import path

from tenants.pulsar import placement
from tenants.pulsar import urls as _converters  # noqa: F401

app_name = "admin_v1"
urlpatterns = [
    path("namespaces/<segment:cluster>/antiAffinity/<segment:group>", placement.together_view, name="anti-affinity-namespaces"),
]
