"""Issuers of a tenant: who may set one and from where, and what its tokens may do at the API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings as django_settings
from jwt.algorithms import ECAlgorithm

from messaging.errors import NotAuthorized
from messaging.identity.issuers import stored_keys
from tenants import actions
from tenants.access import platform_actor
from tenants.actions.issuers import IssuerTerms, delete_issuer, keep_issuer_keys, set_issuer
from tenants.models import AuditRecord, TokenIssuer
from tests.tenants.world import Caller, World

AT = "/api/v1/tenants/acme/issuers"
N = "/api/v1/tenants/acme/namespaces/orders"
LOGIN = "https://login.acme.example"
KEYS_AT = f"{LOGIN}/keys/jwks.json"
BODY = {"issuer": LOGIN, "audience": "magnetar", "jwks_url": KEYS_AT, "roles": {"orders-service": "app"}}
TERMS = IssuerTerms(**BODY)  # type: ignore[arg-type]
SIGNING = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    allows = (f"acme={LOGIN}/keys/", f"other={LOGIN}/keys/")
    monkeypatch.setattr(
        django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, token_issuers_allowed=allows)
    )


def fetched(key: ec.EllipticCurvePrivateKey, kid: str, tenant: str = "acme") -> None:
    """As if a worker had fetched the document."""
    row = TokenIssuer.unscoped.get(tenant=tenant)
    document = {"keys": [{**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": kid}]}
    keep_issuer_keys(platform_actor(), row.pk, row.jwks_url, stored_keys(json.dumps(document).encode()), datetime.now(UTC))


def token(key: ec.EllipticCurvePrivateKey = SIGNING, kid: str = "e1", **claims: Any) -> str:
    given = {"iss": LOGIN, "aud": "magnetar", "sub": "orders-service", "exp": int(time.time()) + 600, **claims}
    return jwt.encode(given, key, "ES256", headers={"kid": kid})


def test_a_token_of_an_issuer_may_what_is_granted_to_its_role(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    shown = olga("PUT", AT + "/corp", BODY).json()
    assert shown.pop("created_at")
    assert shown == {
        **{"name": "corp", **BODY, "role_claim": "sub", "clock_skew_s": 60},
        **{"key_ids": [], "fetched_at": None, "tried_at": None, "problem": ""},
    }
    service = Caller(token())
    assert service("GET", "/api/v1/me").status_code == 401, "its keys are not known yet"
    fetched(SIGNING, "e1")
    me = service("GET", "/api/v1/me").json()
    assert (me["role"], me["key_id"], me["superuser"]) == ("app@acme", "", False)
    assert service("GET", f"{N}/topics").status_code == 404
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce"])
    assert service("GET", f"{N}/topics").status_code == 200
    assert service("GET", "/api/v1/tenants/other/namespaces/things/topics").status_code == 404
    assert caller("tom")("GET", f"{AT}/corp").json()["key_ids"] == ["e1"]
    assert [row["name"] for row in caller("tom")("GET", AT).json()["items"]] == ["corp"]
    assert Caller(token(aud="elsewhere"))("GET", "/api/v1/me").status_code == 401
    assert Caller(token(ec.generate_private_key(ec.SECP256R1())))("GET", "/api/v1/me").status_code == 401
    assert olga("DELETE", f"{AT}/corp").status_code == 204
    assert service("GET", "/api/v1/me").status_code == 401


def test_keys_that_are_gone_verify_nothing(world: World) -> None:
    set_issuer(world.actor("olga"), "acme", "corp", TERMS)
    fetched(SIGNING, "e1")
    newer = ec.generate_private_key(ec.SECP256R1())
    fetched(newer, "e2")
    assert Caller(token())("GET", "/api/v1/me").status_code == 401
    assert Caller(token(newer, "e2"))("GET", "/api/v1/me").status_code == 200
    state = world.broker.state["issuer", "acme/corp"]
    assert [key["kid"] for key in state["keys"]] == ["e2"] and state["roles"] == {"orders-service": "app@acme"}
    recorded = AuditRecord.unscoped.filter(action="issuer.set_keys").latest("id")
    assert (recorded.before, recorded.after) == ({"keys": ["e1"]}, {"keys": ["e2"]})
    fetched(newer, "e2")
    assert AuditRecord.unscoped.filter(action="issuer.set_keys").count() == 2, "what is as before is no change"
    set_issuer(world.actor("olga"), "acme", "corp", TERMS._replace(jwks_url=f"{LOGIN}/keys/others"))
    assert Caller(token(newer, "e2"))("GET", "/api/v1/me").status_code == 401, "keys of another document are fetched first"


def test_nobody_sets_an_issuer_whose_tokens_could_do_more_than_they_can(world: World) -> None:
    olga = world.actor("olga")
    actions.grant_permission(olga, "acme/orders", "app@acme", ["consume"])
    actions.set_custom_role(olga, "acme", "people", ["tenant_admin"])
    actions.set_member(olga, "acme", "tom", "people")
    with pytest.raises(NotAuthorized, match="can do more than you can"):
        set_issuer(world.actor("tom"), "acme", "corp", TERMS)
    set_issuer(world.actor("tom"), "acme", "corp", TERMS._replace(roles={"x": "fresh"}))
    assert not TokenIssuer.unscoped.filter(roles__has_key="orders-service").exists()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"jwks_url": "https://evil.example/keys/jwks.json"}, 412),
        ({"jwks_url": f"{LOGIN}.evil.example/keys/"}, 412),
        ({"jwks_url": f"{LOGIN}/keys/../other"}, 412),
        ({"jwks_url": f"{LOGIN}/keys/\nx"}, 412),
        ({"issuer": "magnetar"}, 400),
        ({"issuer": ""}, 400),
        ({"roles": {}}, 400),
        ({"roles": {"x": "user:olga"}}, 400),
        ({"roles": {"x": "a/b"}}, 400),
        ({"clock_skew_s": 601}, 400),
    ],
)
def test_issuers_that_cannot_be(caller: Callable[[str], Caller], change: dict[str, Any], status: int) -> None:
    answer = caller("olga")("PUT", f"{AT}/corp", {**BODY, **change})
    assert answer.status_code == status, answer.content
    assert not TokenIssuer.unscoped.exists()


def test_an_audience_of_an_issuer_is_of_one_tenant(world: World, caller: Callable[[str], Caller]) -> None:
    set_issuer(world.actor("olga"), "acme", "corp", TERMS)
    assert caller("sam")("PUT", "/api/v1/tenants/other/issuers/mine", BODY).status_code == 409
    assert caller("sam")("PUT", "/api/v1/tenants/other/issuers/mine", {**BODY, "audience": "other"}).status_code == 200


def test_who_may_not(world: World, caller: Callable[[str], Caller]) -> None:
    set_issuer(world.actor("olga"), "acme", "corp", TERMS)
    for method in ("PUT", "DELETE"):
        body = BODY if method == "PUT" else None
        assert caller("tom")(method, f"{AT}/corp", body).status_code == 403
        assert caller("sam")(method, f"{AT}/corp", body).status_code == 404
    assert caller("sam")("GET", f"{AT}/corp").status_code == 404
    assert caller("sam")("GET", "/api/v1/tenants/other/issuers/corp").status_code == 404
    assert TokenIssuer.unscoped.count() == 1


def test_issuers_go_with_their_tenant(world: World) -> None:
    set_issuer(world.actor("olga"), "acme", "corp", TERMS)
    fetched(SIGNING, "e1")
    actions.delete_tenant(world.admin, "acme", force=True)
    assert ("issuer", "acme/corp") not in world.broker.state
    assert Caller(token())("GET", "/api/v1/me").status_code == 401
    with pytest.raises(NotAuthorized):
        delete_issuer(world.actor("olga"), "acme", "corp")
