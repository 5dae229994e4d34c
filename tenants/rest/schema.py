"""The OpenAPI document: routes by drf-spectacular, objects from structs, the errors of every operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from tenants.rest import shapes
from tenants.rest.outcome import Outcome
from tenants.rest.struct_schema import REF, schemas_of

F = TypeVar("F", bound=Callable[..., Any])
Direction = Literal["request", "response"]
PAGE = [
    OpenApiParameter("after", str, description="The value of `next` from the previous page."),
    OpenApiParameter("limit", int, description="1 to 1000; default 100."),
]
PUBLISH_TIME = OpenApiParameter("publish_time_ms", int, required=True, description="Milliseconds since 1970.")
DRY_RUN = OpenApiParameter("dry_run", bool, description="Answer what would happen, and change nothing.")
FORCE = OpenApiParameter("force", bool, description="Also delete everything in it.")
ACCESS = [
    OpenApiParameter("action", str, required=True, description="Of the permission table, such as `produce`."),
    OpenApiParameter("role", str, description="Whom to explain, such as `user:olga` or `app@acme`."),
    OpenApiParameter("key_id", str, description="Or the id of a key."),
    OpenApiParameter("namespace", str, description="Without the tenant; missing: the tenant itself."),
    OpenApiParameter("topic", str, description="Without its namespace."),
    OpenApiParameter("subscription", str, description="Of the topic."),
]
_PROBLEMS = (400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 421, 429, 500, 503)


class Schema(AutoSchema):
    """The name of an operation is its view's, after its method: `tenants_post`."""

    def get_operation_id(self) -> str:
        return f"{self.view.__class__.__name__}_{self.method.lower()}"

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/tenants/{tenant}/").split("/")[0] if "{tenant}/" in self.path else "tenants"]

    def _get_request_for_media_type(self, serializer: Any, direction: Direction = "request") -> tuple[dict[str, Any], bool]:
        if not _is_struct(serializer):
            return super()._get_request_for_media_type(serializer, direction)  # type: ignore[no-any-return,no-untyped-call]
        schemas = schemas_of(serializer, answer=False)
        schema = schemas.pop(serializer.__name__)
        for inner_name, inner in schemas.items():
            self._registered(inner_name, inner)
        name = f"{'Patched' if self.method == 'PATCH' else ''}{serializer.__name__}Request"
        return self._registered(name, schema), "required" in schema

    def _get_response_for_code(
        self, serializer: Any, status_code: Any, media_types: Any = None, direction: Direction = "response"
    ) -> dict[str, Any]:
        if _is_struct(serializer):
            for name, schema in schemas_of(serializer, answer=True).items():
                self._registered(name, schema)
            serializer = {"$ref": REF.format(name=serializer.__name__)}
        answer: dict[str, Any] = super()._get_response_for_code(  # type: ignore[no-untyped-call]
            serializer, status_code, media_types, direction
        )
        return answer

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        problem = self._get_response_for_code(shapes.Problem, "default", media_types=["application/problem+json"])
        for status in _PROBLEMS:
            bodies.setdefault(str(status), problem)
        return bodies

    def _registered(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The reference to it."""
        component = ResolvedComponent(name, ResolvedComponent.SCHEMA, schema, object=name)  # type: ignore[no-untyped-call]
        self.registry.register_on_missing(component)
        reference: dict[str, Any] = component.ref
        return reference


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def describe(
    summary: str, answer: Any, body: Any = None, status: int = 200, parameters: Any = (), *, dry_run: bool = False
) -> Callable[[F], F]:
    """`answer` is the struct or the schema of the response body, or None, or by (status, media type) what is no JSON; `body` is the
    struct of the request body, or its schema by media type.

    `parameters` are those of the query. A request with another one is refused (`tenants.http.queries`). `dry_run`: with that
    parameter it changes nothing, and answers an `Outcome` (`tenants.rest.outcome`)."""
    by_status = isinstance(answer, dict) and all(isinstance(key, tuple) for key in answer)
    responses = answer if by_status else {status: OpenApiResponse(description="Done.") if answer is None else answer}
    if dry_run:
        parameters = [*parameters, DRY_RUN]
        responses.setdefault(200, Outcome)
    decorate: Callable[[F], F] = extend_schema(summary=summary, request=body, responses=responses, parameters=list(parameters))

    def described(handler: F) -> F:
        operation = decorate(handler)
        operation.query_parameters = frozenset(parameter.name for parameter in parameters)  # type: ignore[attr-defined]
        operation.body = body  # type: ignore[attr-defined]
        operation.summary = summary  # type: ignore[attr-defined]
        return operation

    return described


@cache
def page_of(shape: type[msgspec.Struct]) -> type[msgspec.Struct]:
    return msgspec.defstruct(f"PageOf{shape.__name__}", [("items", list[shape]), ("next", str | None)], kw_only=True)  # type: ignore[valid-type]
