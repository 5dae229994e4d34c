"""Saved views. What they show to their tenant is in its audit log."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q

from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.masked_records import RecordMasks
from tenants.models import SavedView, Tenant, User
from tenants.models.views import ADDRESS_LENGTH_MAX, VIEW_NAME_LENGTH_MAX
from tenants.visible import open_tenants

VIEWS_MAX = 200  # of one person


def views_of(actor: Actor, user: User, containing: str = "") -> Iterator[SavedView]:
    """Their own, and what others share in the tenants that are open to them; of these not those that look for what is masked for
    them. `containing`: in the name."""
    shared = Q(shared=True, tenant_uid__in=open_tenants(actor).values("uid"))
    views = SavedView.objects.select_related("owner").filter(Q(owner=user) | shared, name__icontains=containing)
    named = dict(Tenant.unscoped.filter(uid__in=views.order_by().values("tenant_uid")).values_list("uid", "name"))
    masks = RecordMasks(actor)
    for view in views:
        if view.owner_id == user.pk or masks.address(named[view.tenant_uid], view.address) == view.address:
            yield view


def save_view(actor: Actor, user: User, name: str, address: str, tenant: str = "", *, shared: bool = False) -> SavedView:
    """`tenant`: that of the page, "" for none. Raises `InvalidValue`, `Conflict`, `PreconditionFailed`, `NotAuthorized`."""
    if not name.strip() or not name.isprintable() or len(name) > VIEW_NAME_LENGTH_MAX:
        raise InvalidValue(f"name {name[:40]!r} is not valid: use 1 to {VIEW_NAME_LENGTH_MAX} printable characters")
    if len(address) > ADDRESS_LENGTH_MAX:
        raise InvalidValue(
            f"the address has {len(address)} characters, and at most {ADDRESS_LENGTH_MAX} are kept: shorten the filter"
        )
    if shared and not tenant:
        raise InvalidValue("this page is of no tenant, so there is nobody to share it with: keep it for yourself")
    if tenant:
        require(actor, Action.TENANT_SEE, Resource(tenant))
    uid = Tenant.unscoped.values_list("uid", flat=True).get(name=tenant) if tenant else ""
    mine = SavedView.objects.filter(owner=user)
    if mine.filter(name=name.strip()).exists():
        raise Conflict(f"you have a view called {name.strip()!r} already: choose another name, or delete that one")
    if mine.count() >= VIEWS_MAX:
        raise PreconditionFailed(f"you have {VIEWS_MAX} views, and no more are kept: delete some first")
    view = SavedView(owner=user, name=name.strip(), address=address, tenant_uid=uid, shared=shared)
    if not shared:
        view.save()
        return view
    with change(actor, must_confirm=False) as changing:
        view.save()
        changing.audit("view.save", tenant, view.name, None, {"address": address, "shared": True})
    return view


def delete_view(actor: Actor, user: User, number: int) -> str:
    """One's own. The name that it had. Raises `NotFound`."""
    view = SavedView.objects.filter(owner=user, pk=number).first()
    if view is None:
        raise NotFound("this view does not exist, or is somebody else's")
    tenant = Tenant.unscoped.filter(uid=view.tenant_uid).values_list("name", flat=True).first() if view.shared else None
    if tenant is None:
        view.delete()
        return view.name
    with change(actor, must_confirm=False) as changing:
        view.delete()
        changing.audit("view.delete", tenant, view.name, {"address": view.address}, None)
    return view.name
