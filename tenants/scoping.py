"""Which tenant's rows a query may see. A query on tenant data outside any scope raises: to forget is an error, not a leak.

    with tenant_scope("acme"):      rows of acme alone
    with platform_scope():          rows of all tenants: for superusers and our own processes

The scope is a `ContextVar`: it follows `await` and `sync_to_async`, and ends with its block. What this does not cover, by design of
Django: raw SQL, and `Model.unscoped`, the manager that Django's own machinery (cascades, related objects) goes through. Only
`tenants/actions`, `tenants/grants.py` and `tenants/feed.py` may name `unscoped`; a test holds them to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from django.apps import apps
from django.db import models

M = TypeVar("M", bound=models.Model, covariant=True)


class OutsideScope(RuntimeError):
    """A query on tenant data was made without saying for which tenant. A bug of ours, never of the caller's."""


class _Scope(NamedTuple):
    tenant: str | None  # None: all


_scope: ContextVar[_Scope | None] = ContextVar("tenant_scope", default=None)


@contextmanager
def tenant_scope(tenant: str) -> Iterator[None]:
    token = _scope.set(_Scope(tenant))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def platform_scope() -> Iterator[None]:
    token = _scope.set(_Scope(None))
    try:
        yield
    finally:
        _scope.reset(token)


class ScopedManager(models.Manager[M]):
    """The manager of tenant data. `tenant_field` is the column that holds the tenant's name, or with `by_uid` its uid: rows that
    outlive their tenant are told by it from those of a later tenant of the same name. `shared`: rows of "" are of all tenants."""

    def __init__(self, tenant_field: str = "tenant_id", *, by_uid: bool = False, shared: bool = False) -> None:
        super().__init__()
        self._shared = shared
        self._tenant_field = tenant_field
        self._by_uid = by_uid

    def get_queryset(self) -> models.QuerySet[M]:
        scope = _scope.get()
        if scope is None:
            raise OutsideScope(
                f"{self.model.__name__}.objects was used outside a scope: wrap it in tenant_scope(name), or in platform_scope() "
                "where the caller may see every tenant"
            )
        rows = super().get_queryset()
        if scope.tenant is None:
            return rows
        if not self._by_uid:
            return rows.filter(**{self._tenant_field: scope.tenant})
        tenants = apps.get_model("tenants", "Tenant")._base_manager.filter(name=scope.tenant)
        own = models.Q(**{f"{self._tenant_field}__in": tenants.values("uid")})
        return rows.filter(own | models.Q(**{self._tenant_field: ""}) if self._shared else own)
