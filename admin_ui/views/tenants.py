"""Tenants: the list, one of them, create, delete."""

from __future__ import annotations

from django import forms
from django.db.models import Count
from django.db.models.functions import Substr
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import policy_texts
from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out, confirm_page
from admin_ui.forms import LabelsForm, LanguageForm, TenantForm
from admin_ui.key_view import key_view
from admin_ui.pages import add_error, crumbs, navigation, show, show_message
from admin_ui.row_list import Column, list_rows
from admin_ui.topics_of_member import topics_of_member
from admin_ui.translation.figures import exact
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from admin_ui.views.audit import audit_rows
from admin_ui.views.recycled import kept_for
from messaging.errors import MagnetarError
from messaging.permissions.model import Action, Resource, Scope
from tenants.access import Actor
from tenants.actions.labels import set_labels
from tenants.actions.language import set_language
from tenants.actions.policy_views import levels_of_namespace
from tenants.actions.recycling import hours_of_tenant
from tenants.actions.tenants import create_tenant, delete_tenant
from tenants.audit.reading import records_of
from tenants.broker_settings import policy_defaults
from tenants.models import Key, Membership, Namespace, Tenant
from tenants.scoping import platform_scope
from tenants.visible import visible_tenants

KEYS_SHOWN, RECORDS_SHOWN = 5, 12
MEMBERS_SHOWN = 20
# What the list of tenants counts, of those in which one may see all of it.
COUNTED: tuple[tuple[type[Namespace] | type[Key] | type[Membership], Action], ...] = (
    (Namespace, Action.NAMESPACE_READ),
    (Key, Action.KEY_ADMIN),
    (Membership, Action.TENANT_READ),
)

TENANT_COLUMNS = (
    Column("name", gettext_lazy("Tenant"), ("name",)),
    Column("namespaces", gettext_lazy("Namespaces"), look="number"),
    Column("keys", gettext_lazy("Keys"), look="number"),
    Column("members", gettext_lazy("Members"), look="number"),
    Column("created", gettext_lazy("Created"), ("created_at",), down=True),
)
NAMESPACE_COLUMNS = (
    Column("name", gettext_lazy("Namespace"), ("name",)),
    Column("ttl", gettext_lazy("Message TTL")),
    Column("retention", gettext_lazy("Retention")),
    Column("created", gettext_lazy("Created"), ("created_at",), down=True),
)


@page
def home(request: ConsoleRequest) -> HttpResponse:
    """What is wrong now; where there is no tenant yet, how one comes by one."""
    return HttpResponseRedirect(reverse("console:now" if visible_tenants(request.actor).exists() else "console:tenants"))


@page
def tenants(request: ConsoleRequest) -> HttpResponse:
    with platform_scope():
        listed = list_rows(request.GET, visible_tenants(request.actor), TENANT_COLUMNS, searched=("name",))
        shown = [row.name for row in listed.rows]
        request.actor.grants.read_tenants(shown)
        namespaces, keys, members = (_counts(model, _whole(request.actor, action, shown)) for model, action in COUNTED)
        found = [
            {
                "name": row.name,
                "url": reverse("console:tenant", args=[row.name]),
                "namespaces": namespaces.get(row.name),
                "keys": keys.get(row.name),
                "members": members.get(row.name),
                "created_at": row.created_at,
            }
            for row in listed.rows
        ]
    return show(request, "pages/tenants.html", navigation(request, "tenants"), tenants=found, listed=listed)


def _counts(model: type[Namespace] | type[Key] | type[Membership], tenants: list[str]) -> dict[str, int]:
    """tenant -> how many rows of `model` it has; one query each, as one over all three would multiply them."""
    return dict.fromkeys(tenants, 0) | dict(
        model.objects.filter(tenant__in=tenants).order_by().values_list("tenant").annotate(Count("pk"))
    )


def _whole(actor: Actor, action: Action, tenants: list[str]) -> list[str]:
    return [tenant for tenant in tenants if actor.may(action, Resource(tenant))]


@page
def tenant(request: ConsoleRequest, tenant: str) -> HttpResponse:
    nav = navigation(request, "tenant", tenant)
    namespaces, defaults = [], policy_defaults()
    rows = Namespace.objects.select_related("tenant").annotate(local_name=Substr("name", len(tenant) + 2))
    if not request.actor.may(Action.NAMESPACE_READ, Resource(tenant)):  # only some of them
        names = list(Namespace.objects.values_list("name", flat=True))
        request.actor.grants.read_namespaces(names)
        rows = rows.filter(name__in=[name for name in names if request.actor.may(Action.NAMESPACE_READ, Resource(tenant, name))])
    listed = list_rows(request.GET, rows, NAMESPACE_COLUMNS, searched=("local_name",))
    for row in listed.rows:
        levels = levels_of_namespace(row)
        namespaces.append(
            {
                "name": row.local,
                "url": reverse("console:namespace", args=[tenant, row.local]),
                "ttl": policy_texts.one("message_ttl_s", levels, defaults),
                "retention": policy_texts.retention(levels, defaults),
                "created_at": row.created_at,
            }
        )
    may_keys = request.actor.may(Action.KEY_ADMIN, Resource(tenant))
    keys = Key.objects.filter(tenant=tenant) if may_keys else Key.objects.none()
    may_audit = request.actor.may(Action.AUDIT_READ, Resource(tenant))
    sees_all = request.actor.may(Action.TENANT_READ, Resource(tenant))
    memberships = Membership.objects.select_related("user").filter(user__is_active=True) if sees_all else Membership.objects.none()
    return show(
        request,
        "pages/tenant.html",
        nav,
        crumbs=crumbs(),
        namespaces=namespaces,
        listed=listed,
        own=None if namespaces or listed.words else topics_of_member(request.actor, tenant),
        labels=sorted(Tenant.objects.get().labels.items()),
        keys=[key_view(key, {}) for key in keys.order_by("-created_at")[:KEYS_SHOWN]],
        keys_total=keys.count(),
        members=[{"name": row.user.username, "role": role_text(row)} for row in memberships[:MEMBERS_SHOWN]],
        members_total=memberships.count(),
        audit=audit_rows(request.actor, records_of(tenant).order_by("-id")[:RECORDS_SHOWN]) if may_audit else [],
    )


def role_text(row: Membership) -> str:
    return row.role if row.scope == Scope() else f"{row.role}, {said(str(row.scope))}"


@page
def tenant_create(request: ConsoleRequest) -> HttpResponse:
    form = TenantForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        try:
            create_tenant(request.actor, name)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Tenant {name} was created.").format(name=name))
            return HttpResponseRedirect(reverse("console:tenant", args=[name]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "tenants"),
        crumbs=crumbs(),
        heading=gettext("New tenant"),
        form=form,
        intro=gettext("A tenant owns namespaces, keys and usage. Other tenants cannot see what is in it."),
        submit=gettext("Create tenant"),
        cancel_url=reverse("console:tenants"),
    )


@page
def tenant_labels(request: ConsoleRequest, tenant: str) -> HttpResponse:
    labels = Tenant.objects.get().labels
    form = LabelsForm(request.POST or None, initial={"labels": "\n".join(f"{key}={labels[key]}" for key in sorted(labels))})
    if carried_out(request, form, lambda: set_labels(request.actor, tenant, form.cleaned_data["labels"])):
        return _saved(request, tenant, gettext("The labels were saved."))
    return _form(
        request,
        tenant,
        form,
        heading=gettext("Labels of {tenant}").format(tenant=tenant),
        intro=gettext(
            "Labels count for the whole of this month (UTC) and from then on. Months that are over keep those they ended with."
        ),
        submit=gettext("Save labels"),
    )


@page
def tenant_language(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = LanguageForm(request.POST or None, initial={"language": Tenant.objects.get().language})
    if carried_out(request, form, lambda: set_language(request.actor, tenant, form.cleaned_data["language"])):
        return _saved(request, tenant, gettext("The language was saved."))
    return _form(
        request,
        tenant,
        form,
        heading=gettext("Language of {tenant}").format(tenant=tenant),
        intro=gettext("Mails, notices by webhook and topic, reports and invoices of this tenant are in this language."),
        submit=gettext("Save language"),
    )


def _saved(request: ConsoleRequest, tenant: str, message: str) -> HttpResponse:
    show_message(request, message)
    return HttpResponseRedirect(reverse("console:tenant", args=[tenant]))


def _form(request: ConsoleRequest, tenant: str, form: forms.Form, *, heading: str, intro: str, submit: str) -> HttpResponse:
    """Of something of the tenant, which leads back to its page."""
    return show(
        request,
        "pages/form.html",
        navigation(request, "tenant", tenant),
        crumbs=crumbs(tenant),
        heading=heading,
        form=form,
        intro=intro,
        submit=submit,
        cancel_url=reverse("console:tenant", args=[tenant]),
    )


@page
def tenant_delete(request: ConsoleRequest, tenant: str) -> HttpResponse:
    namespaces, hours = Namespace.objects.count(), hours_of_tenant(Tenant.objects.get())
    impact = [
        gettext("All keys of {tenant} stop working immediately and their connections are closed. Its members lose access.").format(
            tenant=tenant
        )
    ]
    if namespaces:
        impact.append(
            ngettext(
                "It still has {namespaces} namespace. Delete it first; until then the tenant cannot be deleted.",
                "It still has {namespaces} namespaces. Delete them first; until then the tenant cannot be deleted.",
                namespaces,
            ).format(namespaces=exact(namespaces))
        )
    if hours:
        impact.append(
            ngettext(
                "It goes to the recycle bin of the platform, and is deleted permanently after {hours} hour.",
                "It goes to the recycle bin of the platform, and is deleted permanently after {hours} hours.",
                hours,
            ).format(hours=hours)
        )
    return confirm_page(
        request,
        navigation(request, "tenant", tenant),
        lambda: delete_tenant(request.actor, tenant),
        crumbs=crumbs(tenant),
        heading=gettext("Delete tenant {tenant}").format(tenant=tenant),
        impact=impact,
        name=tenant,
        submit=gettext("Delete tenant"),
        done=gettext("Tenant {tenant} was deleted.{kept}").format(tenant=tenant, kept=kept_for(hours)),
        back=reverse("console:tenants"),
        cancel=reverse("console:tenant", args=[tenant]),
    )
