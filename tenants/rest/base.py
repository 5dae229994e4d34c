"""What the views of our API share: the actor, pages of a list, and errors as problem+json."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpResponse
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from messaging.errors import InvalidValue, MagnetarError, NotFound
from messaging.limits.depth import check_depth, too_deep
from messaging.limits.model import check
from messaging.limits.rest import API
from messaging.protocol.names import NamespaceName
from tenants.access import Actor
from tenants.http.authentication import actor_of
from tenants.http.errors import answer, answer_error
from tenants.models import Namespace
from tenants.names import namespace_of
from tenants.scoping import tenant_scope

PAGE_LIMIT, PAGE_LIMIT_MAX = 100, 1000
M = TypeVar("M", bound=Model)
_CODES = {400: "invalid_request", 404: "not_found", 405: "method_not_allowed", 406: "not_acceptable", 415: "unsupported_media_type"}


class View(APIView):
    def actor(self) -> Actor:
        return actor_of(self.request._request)

    def read(self, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The valid body of the request. Raises `InvalidValue` naming the first field that is wrong, or unknown."""
        data = self.object_of("fields")
        checked = serializer(data=data)
        unknown = sorted(set(data) - set(checked.fields))
        if unknown:
            raise InvalidValue(f"field {unknown[0][:80]!r} is unknown: use {', '.join(checked.fields)}")
        for name, value in data.items():
            limit = API.get(f"{serializer.__name__}.{name}")
            if limit is not None:
                check(name, value, limit)
        if not checked.is_valid():
            raise InvalidValue(_first(checked.errors))
        return dict(checked.validated_data)

    def object_of(self, what: str) -> dict[str, Any]:
        """The body of the request, which is a JSON object of `what`. Raises `InvalidValue`."""
        try:
            data = self.request.data
        except RecursionError:
            raise InvalidValue(too_deep()) from None
        if not isinstance(data, dict):
            raise InvalidValue(f"the request body is not a JSON object with {what}")
        check_depth(data)
        return dict(data)

    def query_flag(self, name: str) -> bool:
        text = self.request.query_params.get(name, "false")
        if text not in ("true", "false"):
            raise InvalidValue(f"{name} must be true or false, not {text[:40]!r}")
        return text == "true"


def page(request: Request, rows: QuerySet[M], key: str, show: Any) -> Response:
    """A page of `rows` in the order of the unique field `key`. ``?after=`` takes the `next` of the page before."""
    limit = limit_of(request)
    after = request.query_params.get("after", "")
    if "\x00" in after:
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    found = list((rows.filter(**{f"{key}__gt": after}) if after else rows).order_by(key)[: limit + 1])
    following = str(getattr(found[limit - 1], key)) if len(found) > limit else None
    return Response({"items": [show(row) for row in found[:limit]], "next": following})


def page_of_names(request: Request, names: list[str], show: Any) -> Response:
    limit, after = limit_of(request), request.query_params.get("after", "")
    found = [name for name in sorted(names) if name > after]
    return Response({"items": [show(name) for name in found[:limit]], "next": found[limit - 1] if len(found) > limit else None})


def limit_of(request: Request) -> int:
    text = request.query_params.get("limit", str(PAGE_LIMIT))
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= PAGE_LIMIT_MAX):
        raise InvalidValue(f"limit {text[:20]!r} is not a number from 1 to {PAGE_LIMIT_MAX}")
    return int(text)


def existing_namespace(tenant: str, namespace: str) -> Namespace:
    name: NamespaceName = namespace_of(tenant, namespace)
    with tenant_scope(tenant):
        found = Namespace.objects.filter(name=str(name)).first()
    if found is None:
        raise NotFound(f"namespace {str(name)!r} does not exist")
    return found


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Every error of a view, as problem+json; None for a bug, which Django logs and answers with 500."""
    request = context["request"]._request
    if isinstance(error, MagnetarError):
        return answer_error(request, error)
    if not isinstance(error, exceptions.APIException):
        return None
    detail = error.detail if isinstance(error.detail, str) else _first(error.detail)
    response = answer(request, error.status_code, _CODES.get(error.status_code, "invalid_request"), str(detail))
    return response


def _first(errors: Any, path: str = "") -> str:
    """The first of nested errors, with the field it is about."""
    if isinstance(errors, dict):
        field, inner = next(iter(errors.items()))
        return _first(inner, path if field == "non_field_errors" else f"{path}.{field}".lstrip("."))
    if isinstance(errors, list):
        return _first(errors[0], path) if errors else "the request is not valid"
    return f"{path}: {errors}" if path else str(errors)
