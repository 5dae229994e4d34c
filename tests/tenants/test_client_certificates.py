"""Certificates of REST clients: what the TLS listener says of a connection is who makes its requests, unless they say more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.conf import settings as django_settings
from django.test import RequestFactory

from messaging.errors import AuthenticationFailed, NotAuthorized
from messaging.identity import service_token
from messaging.permissions.model import Principal
from tenants.http.authentication import actor_of, service_of

pytestmark = pytest.mark.django_db
FEED = "GET /internal/v1/feed"


def certificate(name: str, ends: str = "Nov 14 22:13:20 2100 GMT") -> dict[str, Any]:
    return {"subject": ((("commonName", name),),), "notAfter": ends}


def request(kind: str, presented: dict[str, Any] | None, **headers: str) -> Any:
    made = RequestFactory().get("/api/v1/tenants", headers=headers)
    made.scope = {"state": {kind: presented}}  # type: ignore[attr-defined]
    return made


@pytest.fixture(autouse=True)
def roles(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = msgspec.structs.replace(django_settings.MAGNETAR, tls_client_roles=("billing=app@acme",))
    monkeypatch.setattr(django_settings, "MAGNETAR", changed)


def test_a_client_is_known_by_its_certificate_as_on_the_binary_protocol() -> None:
    assert actor_of(request("peer_certificate", certificate("stranger"))).principal.role == "certificate:stranger"
    assert actor_of(request("peer_certificate", certificate("billing"))).principal.role == "app@acme"
    assert actor_of(request("peer_certificate", {})).principal.anonymous
    with pytest.raises(AuthenticationFailed, match="ended at Nov 14"):
        actor_of(request("peer_certificate", certificate("billing", "Nov 14 22:13:20 2020 GMT")))


def test_a_token_comes_before_the_certificate_and_a_wrong_one_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="not valid"):
        actor_of(request("peer_certificate", certificate("billing"), Authorization="Bearer wrong"))


@pytest.mark.parametrize("header", [{"Origin": "http://testserver"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_page_cannot_use_the_certificate_of_the_browser(header: dict[str, str]) -> None:
    assert actor_of(request("peer_certificate", certificate("billing"), **header)).principal.anonymous


def test_a_certificate_of_a_client_is_none_of_a_process_and_the_other_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    between_us = {"internal_tls_cert_file": "c", "internal_tls_key_file": "k", "internal_tls_ca_file": "a"}
    monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, **between_us))
    settings = django_settings.MAGNETAR
    assert actor_of(request("process_certificate", certificate("billing"))).principal.anonymous
    bearer = {"Authorization": f"Bearer {service_token(settings, 'broker')}"}
    broker = service_of(request("process_certificate", certificate("broker"), **bearer), FEED)
    assert (broker.role, broker.service) == (Principal("service:broker").role, True)
    for kind, name in (("peer_certificate", "broker"), ("process_certificate", "web")):
        with pytest.raises(AuthenticationFailed, match="token is of 'broker' but the certificate"):
            service_of(request(kind, certificate(name), **bearer), FEED)
    theirs = {"Authorization": f"Bearer {service_token(settings, 'worker')}"}
    with pytest.raises(NotAuthorized, match="only broker may"):
        service_of(request("process_certificate", certificate("worker"), **theirs), FEED)
