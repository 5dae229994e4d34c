"""The OpenAPI document: complete, and true of what the API answers to anything that fits it, and to what does not."""

from __future__ import annotations

import gzip
import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import Any

import msgspec
import pytest
import schemathesis
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from controlplane.permissions import REST
from messaging import bodies
from messaging.limits.sizes import NAME_BYTES_MAX, PARTITIONS_MAX, ROLES_MAX
from messaging.limits.structs import limits_of
from tenants.actions import set_team
from tenants.models import Tenant
from tenants.rest.document import document, operations, request_bodies
from tests.support.recycled_namespaces import recycled_namespace, recycled_tenant
from tests.tenants.world import Caller, World
from workers.billing.budget_models import Budget, ReportSchedule
from workers.models import TaskRun
from workers.schedule import FORGET_OLD

CHECKS: list[Any] = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# How many requests are made up in all, and from which seed; `make api-campaign` asks for more of them.
CALLS, SEED = int(os.environ.get("API_CALLS", "700")), int(os.environ.get("API_SEED", "1"))
OPERATIONS = [(path, method) for path, operations in document()["paths"].items() for method in operations]


def test_the_document_is_served_to_everybody(db: None) -> None:
    response = Caller()("GET", "/api/v1/openapi.json")
    assert response.status_code == 200
    assert response.json()["openapi"].startswith("3.1")
    page = Caller()("GET", "/api/v1/docs")
    assert page.status_code == 200
    assert "/api/v1/tenants/{tenant}/keys" in page.content.decode()


@pytest.mark.parametrize(
    ("accepted", "compressed"), [("gzip, deflate, br", True), ("br;q=1, GZIP;q=0.5", True), ("gzip;q=0", False), ("br", False)]
)
def test_the_document_is_compressed_for_whoever_takes_that(db: None, accepted: str, compressed: bool) -> None:
    """1.5 MB otherwise, with each look at it."""
    plain, asked = Caller()("GET", "/api/v1/openapi.json"), {"Accept-Encoding": accepted}
    response = Client().get("/api/v1/openapi.json", headers=asked)
    assert response.headers.get("Content-Encoding") == ("gzip" if compressed else None)
    assert "Accept-Encoding" in response.headers["Vary"]
    assert (gzip.decompress(response.content) if compressed else response.content) == plain.content
    assert not compressed or 10 * len(response.content) < len(plain.content)
    again = Client().get("/api/v1/openapi.json", headers={**asked, "If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_lists_what_the_document_describes() -> None:
    described = document()["paths"]
    listed = [(operation.path, operation.method.lower(), operation.summary) for operation in operations()]
    assert [path for path, _, _ in listed] == sorted(path for path, _, _ in listed)
    assert set(listed) == {(path, method, described[path][method]["summary"]) for path, method in OPERATIONS}
    assert len(listed) == len(OPERATIONS)


def test_every_route_of_the_api_is_described() -> None:
    undescribed = {"api:openapi", "api:docs"}
    assert len(OPERATIONS) == len([name for _, name in REST if name.startswith(("api:", "billing:")) and name not in undescribed])
    operations = [operation for path in document()["paths"].values() for operation in path.values()]
    assert all(operation["summary"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def test_every_body_and_answer_has_a_schema() -> None:
    """Answers with policies were described by an object whose only key was a media type, which any answer fits."""
    for path, method in OPERATIONS:
        operation = document()["paths"][path][method]
        for described in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type, content in described.get("content", {}).items():
                assert {"$ref", "type"} & set(content["schema"]), (path, method, media_type)


def test_the_document_says_the_limits_of_fields() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["NewTenantRequest"]["properties"]["name"]["maxLength"] == NAME_BYTES_MAX
    assert schemas["NewTenantRequest"]["properties"]["admin_roles"]["maxItems"] == ROLES_MAX
    assert schemas["NewTopicRequest"]["properties"]["partitions"]["maximum"] == PARTITIONS_MAX
    for body in request_bodies():
        schema = schemas.get(f"{body.__name__}Request") or schemas[f"Patched{body.__name__}Request"]
        assert not schema["additionalProperties"]
        for name in limits_of(body):
            assert {"max", "min"} & {key[:3] for key in schema["properties"][name]} or "anyOf" in schema["properties"][name], name


def test_every_operation_has_examples_that_fit_its_schemas() -> None:
    components = {"components": document()["components"]}
    checked = 0
    for path, method in OPERATIONS:
        operation = document()["paths"][path][method]
        for described in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type, content in described.get("content", {}).items():
                if media_type != "application/json":
                    continue
                Draft202012Validator({**components, **content["schema"]}).validate(content["example"])
                checked += 1
    assert checked > len(OPERATIONS)


def test_examples_of_bodies_are_taken_by_the_api() -> None:
    """What a schema cannot say, such as fields that exclude each other, holds for them, too."""
    examples = {
        content["schema"].get("$ref", "").rpartition("/")[2]: content["example"]
        for path, method in OPERATIONS
        for content in document()["paths"][path][method].get("requestBody", {}).get("content", {}).values()
    }
    for body in request_bodies():
        example = examples.get(f"{body.__name__}Request") or examples[f"Patched{body.__name__}Request"]
        bodies.convert(example, body)


def test_the_document_says_which_headers_make_changes_safe() -> None:
    for path, method in OPERATIONS:
        parameters = document()["paths"][path][method].get("parameters", [])
        headers = {each["name"] for each in parameters if each["in"] == "header"}
        assert ("Idempotency-Key" in headers) == (method != "get"), (path, method)
        conditional = method in ("put", "patch", "delete") and "get" in document()["paths"][path]
        assert ("If-Match" in headers) == conditional, (path, method)


def test_the_document_is_made_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """The first look at it wrote "This will very likely result in an incorrect schema" into the log of the web process."""
    SchemaGenerator(urlconf="controlplane.api_urls").get_schema(public=True)
    assert capsys.readouterr().err == ""


@cache
def schema() -> Any:
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())


@pytest.fixture
def one_transaction() -> Iterator[None]:
    """Requests leave the connection open, as Django's own test client makes them do: the test's transaction is on it."""
    signals.request_started.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_old_connections)
    yield
    signals.request_started.connect(close_old_connections)
    signals.request_finished.connect(close_old_connections)


@pytest.mark.usefixtures("one_transaction")
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_fit_the_document(world: World, path: str, method: str) -> None:
    """Requests made up from the document's own shapes, each once more for what is there. Seeded: a failure comes back."""
    operation = schema()[path][method.upper()]
    headers = {"Authorization": f"Bearer {world.superuser_token}"}
    existing = {"kind": "topics"}
    existing |= {"tenant": "acme", "namespace": "orders", "topic": "t", "username": "tom", "role": "r", "key_id": "k1"}
    existing |= {"subscription": "s", "message_id": "1:0", "invoice": "2026-000001", "line": "bytes_in@2026-03-01T00"}
    existing |= {"version": "0", "team": "payments", "invitation": "n1", "session": "1", "issuer": "corp", "recycle_id": "x1"}
    existing |= {
        "run_id": "r1",
        "job": "j1",
        "move": "1",
        "job_id": "redrive-j1",
        "rule": "a1",
        "notice": "n1",
        "budget": "b1",
        "schedule": "s1",
        "report": "p1",
        "file": "report.csv",
    }
    TaskRun.objects.create(task_id="r1", name=FORGET_OLD, started_at=timezone.now(), outcome="succeeded")
    of_acme = {"tenant": "acme", "tenant_uid": Tenant.unscoped.get(name="acme").uid, "name": "All", "created_at": timezone.now()}
    Budget.unscoped.create(id="b1", currency="EUR", amount_minor=1, thresholds=[50], **of_acme)
    ReportSchedule.unscoped.create(id="s1", every="day", by="topic", made_until="2026-03-01", **of_acme)
    world.token("app@acme")
    set_team(world.admin, "acme", "payments", [])
    world.broker.add("persistent://acme/orders/t", "s")
    world.broker.add("persistent://acme/orders/deleted")
    world.broker.recycle("persistent://acme/orders/deleted", "x1")
    recycled_namespace(world.admin, "acme/gone", "x1")
    recycled_tenant(world.admin, "gone", "x2")

    @seed(SEED)
    @settings(
        max_examples=ceil(CALLS / (2 * len(OPERATIONS))),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        case.call_and_validate(headers=headers, checks=CHECKS)
        if case.path_parameters:
            case.path_parameters = {name: existing[name] for name in case.path_parameters}
            case.call_and_validate(headers=headers, checks=CHECKS)

    check()


def test_no_two_objects_of_the_api_are_called_alike() -> None:
    """Of two with one name the document would have the fields of the first for both. Seen with two issuers."""
    document()  # loads every view
    waiting: list[type[msgspec.Struct]] = [msgspec.Struct]
    modules: dict[str, set[str]] = defaultdict(set)
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        for kind in kinds:
            if kind.__module__.rpartition(".")[2].endswith("shapes"):
                modules[kind.__name__].add(kind.__module__)
    assert "NewKey" in modules
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
