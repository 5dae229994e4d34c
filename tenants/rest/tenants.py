"""Tenants, their keys, members and audit log, as our API has them."""

from __future__ import annotations

from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import sent_fields
from messaging.errors import AuthenticationFailed, InvalidValue, NotFound
from messaging.permissions.model import Action
from tenants import actions, broker
from tenants.actions import effects
from tenants.http.authentication import key_of_token
from tenants.models import Key, Membership, Tenant
from tenants.rest import shapes
from tenants.rest.base import View, page
from tenants.rest.outcome import Outcome
from tenants.rest.schema import DRY_RUN, FORCE, PAGE, describe, page_of
from tenants.scoping import platform_scope, tenant_scope
from tenants.visible import visible_tenants


def existing(name: str) -> Tenant:
    with tenant_scope(name):
        row = Tenant.objects.first()
    if row is None:
        raise NotFound(f"tenant {name!r} does not exist")
    return row


class Me(View):
    @describe("The caller, and where the broker is", shapes.Me)
    def get(self, request: Request) -> Response:
        actor = self.actor()
        principal = actor.principal
        found = broker.addresses()
        return Response(
            shapes.Me(
                role=principal.role,
                key_id=principal.key_id,
                superuser=actor.may(Action.SUPERUSER),
                broker_url=found.get("broker_url", ""),
                broker_url_tls=found.get("broker_url_tls", ""),
                ws_url=found.get("ws_url", ""),
            )
        )


class Tenants(View):
    @describe("Tenants that the caller may see", page_of(shapes.TenantShape), parameters=PAGE)
    def get(self, request: Request) -> Response:
        with platform_scope():
            return page(request, visible_tenants(self.actor()), "name", shapes.show_tenant)

    @describe("Create a tenant", shapes.TenantShape, shapes.NewTenant, 201)
    def post(self, request: Request) -> Response:
        given = self.read(shapes.NewTenant)
        created = actions.create_tenant(self.actor(), **sent_fields(given))
        return Response(shapes.show_tenant(created), status=201)


class TenantOne(View):
    @describe("A tenant", shapes.TenantShape)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(shapes.show_tenant(existing(tenant)))

    @describe("Change a tenant", shapes.TenantShape, shapes.TenantChange)
    def patch(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.TenantChange)
        changed = actions.update_tenant(self.actor(), tenant, **sent_fields(given))
        return Response(shapes.show_tenant(changed))

    @describe("Delete a tenant", None, status=204, parameters=[FORCE], dry_run=True)
    def delete(self, request: Request, tenant: str) -> Response:
        if self.dry_run():
            affected = effects.deleted_tenant(self.actor(), tenant, force=self.query_flag("force"))
            return Response(Outcome(dry_run=True, action="tenant.delete", resource=tenant, affected=affected))
        actions.delete_tenant(self.actor(), tenant, force=self.query_flag("force"))
        return Response(status=204)


class TenantLabels(View):
    @describe("Labels of a tenant: what its costs can be summed by", shapes.LabelsShape)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(shapes.LabelsShape(labels=existing(tenant).labels))

    @describe(
        "Set all labels of a tenant; they count for this month (UTC) and from then on", shapes.LabelsShape, shapes.LabelsShape
    )
    def put(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.LabelsShape)
        return Response(shapes.LabelsShape(labels=actions.set_labels(self.actor(), tenant, given.labels).labels))


class TenantLanguage(View):
    @describe("The language of a tenant", shapes.LanguageShape)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(shapes.show_language(existing(tenant)))

    @describe("Set the language in which a tenant is sent mails, notices and invoices", shapes.LanguageShape, shapes.LanguageShape)
    def put(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.LanguageShape)
        return Response(shapes.show_language(actions.set_language(self.actor(), tenant, given.language)))


class Keys(View):
    @describe("Keys of a tenant", page_of(shapes.KeyShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, Key.objects.all(), "id", shapes.show_key)

    @describe("Create a key; its token is returned only in this response", shapes.KeyWithToken, shapes.NewKey, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewKey)
        scope = None if given.scope is UNSET else [actions.KeyUse(use.actions, use.namespace, use.topics) for use in given.scope]
        return _shown_once(actions.create_key(self.actor(), tenant, given.name, given.expires_at, scope, given.networks))


def _shown_once(created: actions.NewKey) -> Response:
    response = Response(shapes.show_new_key(created.key, created.token), status=201)
    response.headers["Cache-Control"] = "no-store"
    return response


class RotateKey(View):
    @describe(
        "Replace a key by one that can do the same; both are valid for a while. Its token is returned only in this response",
        shapes.KeyWithToken,
        shapes.KeyRotation,
        201,
    )
    def post(self, request: Request, tenant: str, key_id: str) -> Response:
        return _shown_once(actions.rotate_key(self.actor(), tenant, key_id, self.read(shapes.KeyRotation).overlap_s))


class RevokeToken(View):
    @describe("Revoke the key of a token that leaked", shapes.KeyShape, shapes.LeakedToken)
    def post(self, request: Request, tenant: str) -> Response:
        try:
            key_id = key_of_token(self.read(shapes.LeakedToken).token.strip())
        except AuthenticationFailed:
            raise InvalidValue(
                "this is no valid token of the platform: paste the whole token, without `token:` before it"
            ) from None
        return Response(shapes.show_key(actions.revoke_token(self.actor(), tenant, key_id)))


class KeyOne(View):
    @describe("A key", shapes.KeyShape)
    def get(self, request: Request, tenant: str, key_id: str) -> Response:
        with tenant_scope(tenant):
            key = Key.objects.filter(id=key_id).first()
        if key is None:
            raise NotFound(f"key {key_id[:64]!r} does not exist")
        return Response(shapes.show_key(key))

    @describe("Revoke a key; its connections are closed", shapes.KeyShape, parameters=[DRY_RUN])
    def delete(self, request: Request, tenant: str, key_id: str) -> Response:
        if self.dry_run():
            return Response(shapes.show_key(effects.revoked_key(self.actor(), tenant, key_id)))
        return Response(shapes.show_key(actions.revoke_key(self.actor(), tenant, key_id)))


class Members(View):
    @describe("Members of a tenant", page_of(shapes.MemberShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, Membership.objects.select_related("user"), "id", shapes.show_member)


class Member(View):
    @describe("Set the role of a member, and where it holds", shapes.MemberShape, shapes.NewMemberRole)
    def put(self, request: Request, tenant: str, username: str) -> Response:
        given = self.read(shapes.NewMemberRole)
        return Response(shapes.show_member(actions.set_member(self.actor(), tenant, username, **sent_fields(given))))

    @describe("Remove a member", None, status=204)
    def delete(self, request: Request, tenant: str, username: str) -> Response:
        actions.remove_member(self.actor(), tenant, username)
        return Response(status=204)
