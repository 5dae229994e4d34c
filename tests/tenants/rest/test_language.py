"""The language of a tenant: who sets it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenants.models import AuditRecord, Tenant
from tests.tenants.world import Caller, World

A = "/api/v1/tenants/acme/language"
Call = Callable[[str], Caller]


def test_owners_set_the_language_and_others_do_not(world: World, caller: Call) -> None:
    assert caller("tom")("GET", A).json() == {"language": ""}
    assert caller("olga")("PUT", A, {"language": "de"}).json() == {"language": "de"}
    assert caller("tom")("GET", A).json() == {"language": "de"}
    assert caller("tom")("PUT", A, {"language": "en"}).status_code == 403
    for method in ("GET", "PUT"):
        assert caller("sam")(method, A, {"language": "en"}).status_code == 404
    record = AuditRecord.unscoped.get(action="tenant.set_language")
    assert (record.role, record.tenant, record.before, record.after) == (
        "user:olga", "acme", {"language": ""}, {"language": "de"},
    )  # fmt: skip
    assert Tenant.unscoped.get(name="acme").language == "de"


@pytest.mark.parametrize("language", ["fr", "DE", "d" * 500, 7, None])
def test_a_language_that_is_not_offered_changes_nothing(world: World, caller: Call, language: object) -> None:
    assert caller("olga")("PUT", A, {"language": language}).status_code == 400
    assert Tenant.unscoped.get(name="acme").language == ""
