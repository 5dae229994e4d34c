"""/lookup/v2"""

from __future__ import annotations

from django.urls import path

from tenants.pulsar import brokers
from tenants.pulsar import urls as _converters  # noqa: F401

app_name = "lookup"
_TOPIC = "topic/<domain:domain>/<segment:tenant>/<segment:namespace>/<segment:topic>"
urlpatterns = [
    path(_TOPIC, brokers.lookup_view, name="topic"),
    path(f"{_TOPIC}/bundle", brokers.bundle_view, name="bundle"),
]
