"""Roles of a tenant: what each may do, and those that the tenant defines for itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.db.models import Count
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.action_texts import TEXTS
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.form_pages import carried_out, confirm_page
from admin_ui.forms import PLAIN, EntityField
from admin_ui.pages import crumbs, navigation, show, show_message
from admin_ui.row_list import Column, list_items
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.permissions.model import Action
from messaging.permissions.roles import BUILT_IN, CUSTOM_ACTIONS, OF_TENANT, complete, known
from tenants.actions.custom_roles import delete_custom_role, set_custom_role
from tenants.models import CustomRole, Membership, TeamRole

CHOSEN = tuple(action for action in CUSTOM_ACTIONS if action is not Action.TENANT_SEE)  # every role has that one


class RoleForm(forms.Form):
    name = EntityField("role", label="Name", help_text="Letters, digits and - = : . _")
    description = forms.CharField(
        label="Description", required=False, max_length=200, widget=forms.TextInput(attrs=PLAIN), help_text="What it is for."
    )
    actions = forms.MultipleChoiceField(
        label="May", choices=[(str(action), TEXTS[action]) for action in CHOSEN], widget=forms.CheckboxSelectMultiple
    )

    def ordered(self) -> list[str]:
        chosen = self.cleaned_data.get("actions") or ()
        return [str(action) for action in CHOSEN if action in chosen]


class RoleRow(NamedTuple):
    """`members` and `teams`: how many have it."""

    name: str
    description: str
    built_in: bool
    members: int
    teams: int


ROLE_COLUMNS = (
    Column("built-in", value=lambda one: not one.built_in),
    Column("name", gettext_lazy("Role"), value=lambda one: one.name),
    Column("members", gettext_lazy("Members"), value=lambda one: one.members, down=True, look="number"),
    Column("teams", gettext_lazy("Teams"), value=lambda one: one.teams, down=True, look="number"),
)


@page
def roles(request: ConsoleRequest, tenant: str) -> HttpResponse:
    own = list(CustomRole.objects.order_by("name"))
    actions_of = {name: role.actions for name, role in BUILT_IN.items()} | {row.name: complete(known(row.actions)) for row in own}
    counts = dict(Membership.objects.order_by().values_list("role").annotate(Count("pk")))
    teams = dict(TeamRole.objects.order_by().values_list("role").annotate(Count("team", distinct=True)))
    described = [(name, said(role.description), True) for name, role in BUILT_IN.items()]
    described += [(row.name, row.description, False) for row in own]
    return show(
        request,
        "pages/roles.html",
        navigation(request, "roles", tenant),
        crumbs=crumbs(tenant),
        listed=list_items(
            request.GET,
            [RoleRow(*each, counts.get(each[0], 0), teams.get(each[0], 0)) for each in described],
            ROLE_COLUMNS,
            text=lambda one: f"{one.name} {one.description}",
        ),
        names=list(actions_of),
        actions=[
            {"action": str(action), "text": TEXTS[action], "of": [(name, action in has) for name, has in actions_of.items()]}
            for action in OF_TENANT
            if action is not Action.TENANT_SEE
        ],
    )


@page
def role_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _edit(request, tenant, None)


@page
def role(request: ConsoleRequest, tenant: str, role: str) -> HttpResponse:
    return _edit(request, tenant, _own(role))


@page
def role_delete(request: ConsoleRequest, tenant: str, role: str) -> HttpResponse:
    row = _own(role)
    return confirm_page(
        request,
        navigation(request, "roles", tenant),
        lambda: delete_custom_role(request.actor, tenant, row.name),
        crumbs=_above(tenant),
        heading=gettext("Delete role {name}").format(name=row.name),
        impact=[gettext("A role that somebody has cannot be deleted: give them another one first.")],
        name=row.name,
        submit=gettext("Delete role"),
        done=gettext("Role {name} was deleted.").format(name=row.name),
        back=reverse("console:roles", args=[tenant]),
        calls=[api_calls.delete_role(tenant, row.name)],
    )


def _edit(request: ConsoleRequest, tenant: str, row: CustomRole | None) -> HttpResponse:
    initial: dict[str, Any] = {"name": row.name, "description": row.description, "actions": row.actions} if row else {}
    given = request.GET if followed(request) else request.POST or None
    form = RoleForm(given, initial=initial)
    if row is not None:  # a role is not renamed
        form.fields["name"].disabled = True
    if followed(request):
        form.is_valid()
        cleaned = form.cleaned_data
        called = api_calls.set_role(tenant, cleaned.get("name", ""), form.ordered(), cleaned.get("description", ""))
        return show_calls(request, [called])
    if carried_out(request, form, lambda: _set(request, tenant, row, form)):
        done = gettext("Role {name} is in effect for everybody who has it.") if row else gettext("Role {name} was created.")
        show_message(request, done.format(name=form.cleaned_data["name"]))
        return HttpResponseRedirect(reverse("console:roles", args=[tenant]))
    shown = api_calls.set_role(tenant, row.name if row else "", row.actions if row else [], row.description if row else "")
    return show(
        request,
        "pages/role.html",
        navigation(request, "roles", tenant),
        crumbs=_above(tenant),
        form=form,
        row=row,
        calls=calls_of(request, [shown]),
    )


def _set(request: ConsoleRequest, tenant: str, row: CustomRole | None, form: RoleForm) -> None:
    name = form.cleaned_data["name"]
    if row is None and CustomRole.objects.filter(name=name).exists():
        form.add_error("name", gettext("There is a role of this name: change it there, or choose another name."))
    else:
        set_custom_role(request.actor, tenant, name, form.ordered(), form.cleaned_data["description"])


def _own(name: str) -> CustomRole:
    row = CustomRole.objects.filter(name=name).first()
    if row is None:
        raise Http404
    return row


def _above(tenant: str) -> list[tuple[str, str]]:
    return crumbs(tenant, "", (gettext("Roles"), reverse("console:roles", args=[tenant])))
