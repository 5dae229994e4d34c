"""The OpenAPI document: what drf-spectacular finds, with every error of every operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from tenants.rest import shapes

F = TypeVar("F", bound=Callable[..., Any])
PAGE = [
    OpenApiParameter("after", str, description="The `next` of the page before."),
    OpenApiParameter("limit", int, description="From 1 to 1000; 100 if missing."),
]
AUDIT_PAGE = [
    *PAGE,
    OpenApiParameter("action", str, description="Records of exactly this action, such as `key.create` or `denied`."),
    OpenApiParameter("role", str, description="Records of exactly this role, such as `user:olga` or `app@acme`."),
]
FORCE = OpenApiParameter("force", bool, description="Whatever is in it goes too.")
_PROBLEMS = (400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 421, 429, 500, 503)


class Schema(AutoSchema):
    """The name of an operation is its view's, after its method: `tenants_post`."""

    def get_operation_id(self) -> str:
        return f"{self.view.__class__.__name__}_{self.method.lower()}"

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/tenants/{tenant}/").split("/")[0] if "{tenant}/" in self.path else "tenants"]

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        problem = self._get_response_for_code(  # type: ignore[no-untyped-call]
            shapes.Problem, "default", media_types=["application/problem+json"]
        )
        for status in _PROBLEMS:
            bodies.setdefault(str(status), problem)
        return bodies


def describe(summary: str, answer: Any, body: Any = None, status: int = 200, parameters: Any = ()) -> Callable[[F], F]:
    """`answer` None: no body. `body`: the shape of the request's."""
    responses = {status: OpenApiResponse(description="Done.") if answer is None else answer}
    decorate: Callable[[F], F] = extend_schema(summary=summary, request=body, responses=responses, parameters=list(parameters))
    return decorate


@cache
def page_of(shape: type[serializers.Serializer[Any]]) -> type[serializers.Serializer[Any]]:
    fields = {"items": shape(many=True), "next": serializers.CharField(allow_null=True)}
    return type(f"PageOf{shape.__name__}", (serializers.Serializer,), fields)
