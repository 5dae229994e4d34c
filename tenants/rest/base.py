"""What the views of our API share: the actor, pages of a list, and errors as problem+json."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from messaging import bodies
from messaging.errors import InvalidValue, MagnetarError, NotFound
from messaging.limits.depth import check_depth
from messaging.limits.sizes import TOPIC_BYTES_MAX
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import NamespaceName
from tenants.access import Actor
from tenants.http.authentication import actor_of
from tenants.http.errors import answer, answer_error
from tenants.http.request_state import state_of
from tenants.models import Namespace
from tenants.names import namespace_of
from tenants.scoping import tenant_scope

PAGE_LIMIT, PAGE_LIMIT_MAX = 100, 1000
ID_LENGTH_MAX = 64
AFTER_BYTES_MAX = TOPIC_BYTES_MAX  # the longest key that a list is in the order of
M = TypeVar("M", bound=Model)
B = TypeVar("B", bound=msgspec.Struct)
_CODES = {400: "invalid_request", 404: "not_found", 405: "method_not_allowed", 406: "not_acceptable", 415: "unsupported_media_type"}


class View(APIView):
    def actor(self) -> Actor:
        return actor_of(self.request._request)

    def read(self, kind: type[B]) -> B:
        """The body of the request. Raises `InvalidValue` naming the first field that is wrong, or unknown."""
        return bodies.convert(self.object_of("fields"), kind)

    def object_of(self, what: str) -> dict[str, Any]:
        """The body of the request, which is a JSON object of `what`. Raises `InvalidValue`."""
        data = self.request.data
        if not isinstance(data, dict):
            raise InvalidValue(f"the request body is not a JSON object with {what}")
        check_depth(data)
        return dict(data)

    def dry_run(self) -> bool:
        """Whether the request only asks what would happen. The view then changes nothing, and nothing is recorded as done."""
        asked = self.query_flag("dry_run")
        state_of(self.request._request).dry_run = asked
        return asked

    def query_number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.request.query_params.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            raise InvalidValue(f"{name} {text[:20]!r} is not a number from {least} to {most}")
        return int(text)

    def query_flag(self, name: str) -> bool:
        text = self.request.query_params.get(name, "false")
        if text not in ("true", "false"):
            raise InvalidValue(f"{name} must be true or false, not {text[:40]!r}")
        return text == "true"


def page(request: Request, rows: QuerySet[M], key: str, show: Any) -> Response:
    """A page of `rows` in the order of the unique field `key`. ``?after=`` takes the `next` of the page before."""
    limit = limit_of(request)
    after = after_of(request)
    try:
        chosen = list((rows.filter(**{f"{key}__gt": after}) if after else rows).order_by(key)[: limit + 1])
    except (ValueError, OverflowError):  # no number, where the key is one
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page") from None
    following = str(getattr(chosen[limit - 1], key)) if len(chosen) > limit else None
    return Response({"items": [show(row) for row in chosen[:limit]], "next": following})


def names_of_page(request: Request, names: list[str]) -> tuple[list[str], str | None]:
    """Those of the page that is asked for, and its `next`."""
    limit, after = limit_of(request), after_of(request)
    following = sorted(name for name in names if name > after)
    return following[:limit], following[limit - 1] if len(following) > limit else None


def page_of_names(request: Request, names: list[str], show: Any) -> Response:
    shown, following = names_of_page(request, names)
    return Response({"items": [show(name) for name in shown], "next": following})


def id_after(request: Request) -> str:
    """``?after=`` of a list by ids that are text."""
    after = request.query_params.get("after", "")
    if not after.isascii() or "\x00" in after or len(after) > ID_LENGTH_MAX:
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    return after


def after_of(request: Request) -> str:
    after: str = request.query_params.get("after", "")
    if "\x00" in after or len(after.encode("utf-8", "surrogatepass")) > AFTER_BYTES_MAX:
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    return after


def limit_of(request: Request) -> int:
    text = request.query_params.get("limit", str(PAGE_LIMIT))
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= PAGE_LIMIT_MAX):
        raise InvalidValue(f"limit {text[:20]!r} is not a number from 1 to {PAGE_LIMIT_MAX}")
    return int(text)


def readable_namespaces(actor: Actor, tenant: str) -> QuerySet[Namespace]:
    """Those that the actor may read; within the scope of the tenant."""
    rows = Namespace.objects.all()
    if actor.may(Action.NAMESPACE_READ, Resource(tenant)):
        return rows
    names = list(rows.values_list("name", flat=True))
    actor.grants.read_namespaces(names)
    return rows.filter(name__in=[name for name in names if actor.may(Action.NAMESPACE_READ, Resource(tenant, name))])


def existing_namespace(tenant: str, namespace: str) -> Namespace:
    name: NamespaceName = namespace_of(tenant, namespace)
    with tenant_scope(tenant):
        row = Namespace.objects.filter(name=str(name)).first()
    if row is None:
        raise NotFound(f"namespace {str(name)!r} does not exist")
    return row


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Every error of a view, as problem+json; None for a bug, which Django logs and answers with 500."""
    request = context["request"]._request
    if isinstance(error, MagnetarError):
        return answer_error(request, error)
    if not isinstance(error, exceptions.APIException):
        return None
    return answer(request, error.status_code, _CODES.get(error.status_code, "invalid_request"), str(error.detail))
