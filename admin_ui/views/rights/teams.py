"""Teams of a tenant: the list, one of them with its members, create, change, delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.db.models import Count
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.form_pages import carried_out, confirm_page
from admin_ui.forms import PLAIN, EntityField
from admin_ui.pages import crumbs, navigation, show, show_error, show_message
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.errors import MagnetarError
from messaging.permissions.roles import BUILT_IN, OWNER
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.actions.teams import ROLES_MAX, RoleOfTeam, add_team_member, delete_team, remove_team_member, set_team
from tenants.models import CustomRole, Membership, Namespace, Team, TeamMember, TeamRole

TEAM_COLUMNS = (
    Column("name", gettext_lazy("Team"), ("name",)),
    Column("roles", gettext_lazy("Roles of its members")),
    Column("members", gettext_lazy("Members"), ("member_count", "name"), down=True, look="number"),
)
TEAM_MEMBER_COLUMNS = (Column("name", gettext_lazy("Person"), ("user__username",)),)
OFFERED_MAX = 200


class TeamForm(forms.Form):
    """`roles`: names that may be chosen."""

    name = EntityField("team", label="Name", help_text="Letters, digits and - = : . _")
    description = forms.CharField(
        label="Description", required=False, max_length=200, widget=forms.TextInput(attrs=PLAIN), help_text="What it is for."
    )

    def __init__(self, *args: Any, roles: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", gettext("no role")), *((name, name) for name in roles)]
        for index in range(ROLES_MAX):
            number = index + 1
            self.fields[f"role-{index}"] = forms.ChoiceField(
                required=False,
                choices=choices,
                widget=forms.Select(attrs={"aria-label": gettext("Role {number}").format(number=number)}),
            )
            for part, hint, name, offered in (
                ("namespace", gettext("whole tenant"), gettext("Namespace of role {number}"), {"list": "namespaces"}),
                ("topics", gettext("all topics"), gettext("Topics of role {number}"), {}),
            ):
                attributes = {**PLAIN, **offered, "placeholder": hint, "aria-label": name.format(number=number)}
                self.fields[f"{part}-{index}"] = forms.CharField(
                    required=False, max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs=attributes)
                )

    def rows(self) -> Iterator[dict[str, object]]:
        for index in range(ROLES_MAX):
            parts = {part: self[f"{part}-{index}"] for part in ("role", "namespace", "topics")}
            yield {**parts, "blank": index > 0 and not any(field.value() for field in parts.values())}

    def roles(self) -> list[RoleOfTeam]:
        values = [[self.cleaned_data.get(f"{part}-{index}") or "" for part in RoleOfTeam._fields] for index in range(ROLES_MAX)]
        return [RoleOfTeam(*row) for row in values if row[0]]


def initial_of(row: Team) -> dict[str, str]:
    initial = {"name": row.name, "description": row.description}
    for index, role in enumerate(row.roles.all()):
        initial |= {f"role-{index}": role.role, f"topics-{index}": role.topics}
        initial[f"namespace-{index}"] = (role.namespace_id or "").partition("/")[2]
    return initial


@page
def teams(request: ConsoleRequest, tenant: str) -> HttpResponse:
    rows = Team.objects.annotate(member_count=Count("members")).prefetch_related("roles")
    listed = list_rows(request.GET, rows, TEAM_COLUMNS, searched=("name", "description"))
    return show(
        request,
        "pages/teams.html",
        navigation(request, "teams", tenant),
        crumbs=crumbs(tenant),
        teams=[{"team": row, "roles": [role_text(role) for role in row.roles.all()]} for row in listed.rows],
        listed=listed,
    )


def role_text(role: TeamRole) -> str:
    return gettext("{role} on {scope}").format(role=role.role, scope=said(str(role.scope)))


@page
def team_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _edit(request, tenant, None)


@page
def team_edit(request: ConsoleRequest, tenant: str, team: str) -> HttpResponse:
    return _edit(request, tenant, _team(team))


@page
def team(request: ConsoleRequest, tenant: str, team: str) -> HttpResponse:
    """Its members, who are added and removed here."""
    row = _team(team)
    if request.method == "POST":
        username, adds = request.POST.get("username", "").strip()[:150], "remove" not in request.POST
        try:
            if adds:
                add_team_member(request.actor, tenant, row.name, username)
            else:
                username = request.POST["remove"][:150]
                remove_team_member(request.actor, tenant, row.name, username)
        except MagnetarError as error:
            show_error(request, error)
        else:
            done = gettext("{username} is now in team {team}.") if adds else gettext("{username} is no longer in team {team}.")
            show_message(request, done.format(username=username, team=row.name))
        return HttpResponseRedirect(request.path)
    if followed(request):
        return show_calls(request, [api_calls.add_team_member(tenant, row.name, request.GET.get("username", "")[:150])])
    members = TeamMember.objects.filter(team=row).select_related("user")
    listed = list_rows(request.GET, members, TEAM_MEMBER_COLUMNS, searched=("user__username",))
    others = Membership.objects.filter(user__is_active=True).exclude(user__teams__team=row)
    return show(
        request,
        "pages/team.html",
        navigation(request, "teams", tenant),
        crumbs=_above(tenant),
        team=row,
        roles=[role_text(role) for role in row.roles.all()],
        members=[{"username": member.user.username, "active": member.user.is_active} for member in listed.rows],
        listed=listed,
        offered=list(others.order_by("user__username").values_list("user__username", flat=True)[:OFFERED_MAX]),
        calls=calls_of(request, [api_calls.add_team_member(tenant, row.name, "")]),
    )


@page
def team_delete(request: ConsoleRequest, tenant: str, team: str) -> HttpResponse:
    row = _team(team)
    return confirm_page(
        request,
        navigation(request, "teams", tenant),
        lambda: delete_team(request.actor, tenant, row.name),
        crumbs=_above(tenant),
        heading=gettext("Delete team {name}").format(name=row.name),
        impact=[gettext("Its members lose at once what they have through it. They remain members of the tenant.")],
        name=row.name,
        submit=gettext("Delete team"),
        done=gettext("Team {name} was deleted.").format(name=row.name),
        back=reverse("console:teams", args=[tenant]),
        calls=[api_calls.delete_team(tenant, row.name)],
    )


def _edit(request: ConsoleRequest, tenant: str, row: Team | None) -> HttpResponse:
    initial = initial_of(row) if row else {}
    names = [*(name for name in BUILT_IN if name != OWNER), *CustomRole.objects.order_by("name").values_list("name", flat=True)]
    given = request.GET if followed(request) else request.POST or None
    form = TeamForm(given, initial=initial, roles=names)
    if row is not None:  # a team is not renamed
        form.fields["name"].disabled = True
    if followed(request):
        form.is_valid()
        cleaned = form.cleaned_data
        called = api_calls.set_team(tenant, cleaned.get("name", ""), form.roles(), cleaned.get("description", ""))
        return show_calls(request, [called])
    if carried_out(request, form, lambda: _set(request, tenant, row, form)):
        name = form.cleaned_data["name"]
        done = gettext("Team {name} was changed, in effect for all its members.") if row else gettext("Team {name} was created.")
        show_message(request, done.format(name=name))
        return HttpResponseRedirect(reverse("console:team", args=[tenant, name]))
    roles = (
        [RoleOfTeam(role.role, (role.namespace_id or "").partition("/")[2], role.topics) for role in row.roles.all()] if row else []
    )
    return show(
        request,
        "pages/team_edit.html",
        navigation(request, "teams", tenant),
        crumbs=_above(tenant),
        form=form,
        team=row,
        namespaces=[each.local for each in Namespace.objects.order_by("name")[:OFFERED_MAX]],
        calls=calls_of(request, [api_calls.set_team(tenant, row.name if row else "", roles, row.description if row else "")]),
    )


def _set(request: ConsoleRequest, tenant: str, row: Team | None, form: TeamForm) -> None:
    name = form.cleaned_data["name"]
    if row is None and Team.objects.filter(name=name).exists():
        form.add_error("name", gettext("There is a team of this name: change it there, or choose another name."))
    else:
        set_team(request.actor, tenant, name, form.roles(), form.cleaned_data["description"])


def _team(name: str) -> Team:
    row = Team.objects.filter(name=name).first()
    if row is None:
        raise Http404
    return row


def _above(tenant: str) -> list[tuple[str, str]]:
    return crumbs(tenant, "", (gettext("Teams"), reverse("console:teams", args=[tenant])))
