"""Every address of the web process. Their permissions: `controlplane.permissions`."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("controlplane.health")),
    path("", include("controlplane.api_urls")),
    path("admin/v2/", include("tenants.pulsar.urls")),
    path("admin/", include("tenants.pulsar.older_urls")),
    path("lookup/v2/", include("tenants.pulsar.lookup_urls")),
    path("internal/v1/", include("tenants.internal")),
    path("", include("admin_ui.urls")),
    path("", include("admin_ui.sign_in.urls")),
]

handler400 = "tenants.http.errors.bad_request"
handler403 = "tenants.http.errors.permission_denied"
handler404 = "tenants.http.errors.not_found"
handler500 = "tenants.http.errors.server_error"
