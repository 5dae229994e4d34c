"""Permissions on several topics at once: the body alone says whose they are, and the permission table sees every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import AuditRecord, Grant, User
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
GRANT, REVOKE = "/admin/v2/namespaces/grantPermissionsOnTopics", "/admin/v2/namespaces/revokePermissionsOnTopics"
OURS, MORE, THEIRS = "persistent://acme/orders/t", "persistent://acme/orders/u", "persistent://other/things/t"


def grants(*topics: str, role: str = "app@acme", **rest: Any) -> list[dict[str, Any]]:
    return [{"topic": topic, "role": role, "actions": ["produce"], **rest} for topic in topics]


@pytest.fixture
def owner(world: World) -> Caller:
    """Of `acme`, and of nothing else."""
    for topic in (OURS, MORE, THEIRS):
        world.broker.add(topic)
    return person("olga")


def person(name: str) -> Caller:
    return Caller(user=User.objects.get(username=name))


def held() -> dict[str, list[str]]:
    return {row.topic: [row.role, *row.actions] for row in Grant.unscoped.order_by("topic")}


def test_all_are_granted_and_revoked_together(owner: Caller, world: World) -> None:
    assert status(owner("POST", GRANT, grants(OURS, MORE))) == 204
    assert held() == {OURS: ["app@acme", "produce"], MORE: ["app@acme", "produce"]}
    assert owner("GET", "/admin/v2/persistent/acme/orders/t/permissions").json() == {"app@acme": ["produce"]}
    recorded = AuditRecord.unscoped.filter(action="permission.grant", tenant="acme").order_by("id")
    assert [row.resource for row in recorded] == [OURS, MORE]
    assert status(owner("POST", REVOKE, [{"topic": OURS, "role": "app@acme"}, {"topic": MORE, "role": "nobody"}])) == 204
    assert held() == {MORE: ["app@acme", "produce"]}
    assert status(owner("POST", REVOKE, [{"topic": OURS, "role": "nobody"}])) == 204


@pytest.mark.parametrize("path", [GRANT, REVOKE])
@pytest.mark.parametrize("topics", [(THEIRS,), (OURS, THEIRS), (THEIRS, OURS), ("persistent://absent/things/t",)])
def test_each_topic_is_looked_at_not_the_first_alone(owner: Caller, world: World, path: str, topics: tuple[str, ...]) -> None:
    world.line.calls.clear()
    assert status(owner("POST", path, grants(*topics))) == 403
    assert held() == {} and not world.line.calls
    refused = AuditRecord.unscoped.get(action="denied")
    assert refused.tenant == next(topic.split("/")[2] for topic in topics if topic != OURS)
    assert (refused.role, refused.resource) == ("user:olga", path)


@pytest.mark.parametrize("path", [GRANT, REVOKE])
@pytest.mark.parametrize("body", [None, b"", b"[", b"[]", b"null", b"{}", b'[{"role": "a"}]', b'[{"topic": "a/b"}]', b'["x"]'])
def test_what_names_no_topic_is_for_superusers_alone(owner: Caller, call: Call, path: str, body: bytes | None) -> None:
    assert status(owner("POST", path, body)) == 403
    assert status(call("POST", path, body)) in (400, 412)
    assert held() == {}


def test_people_who_see_the_tenant_and_those_who_do_not_are_refused(owner: Caller, world: World) -> None:
    assert status(Caller()("POST", GRANT, grants(OURS))) == 401
    for name in ("tom", "sam"):
        assert status(person(name)("POST", GRANT, grants(OURS))) == 403
    assert set(AuditRecord.unscoped.filter(action="denied", role__startswith="user:").values_list("tenant", flat=True)) == {"acme"}
    stranger = Caller(world.token("app@other", tenant="other"))
    answers = [stranger("POST", GRANT, grants(topic)) for topic in (OURS, "persistent://absent/things/t")]
    reasons = {answer.json()["reason"].replace(OURS, "X").replace("persistent://absent/things/t", "X") for answer in answers}
    assert [status(answer) for answer in answers] == [403, 403] and len(reasons) == 1
    assert held() == {}


def test_all_or_none(owner: Caller, call: Call) -> None:
    assert status(owner("POST", GRANT, grants(OURS, "persistent://acme/orders/absent"))) == 404
    assert status(owner("POST", GRANT, [*grants(OURS), *grants(MORE, actions=["fly"])])) == 400
    assert status(owner("POST", GRANT, [*grants(OURS), *grants(MORE, actions=[])])) == 400
    assert status(call("POST", GRANT, grants(OURS, THEIRS))) == 400  # a superuser may both, but in two requests
    assert held() == {}
