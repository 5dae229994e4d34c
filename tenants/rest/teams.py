"""Teams of a tenant and their members, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import NotFound
from tenants import actions
from tenants.models import Team, TeamMember
from tenants.rest import team_shapes as shapes
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope


def existing_team(name: str) -> Team:
    """Of the tenant of the scope."""
    row = Team.objects.filter(name=name).first()
    if row is None:
        raise NotFound(f"team {name[:80]!r} does not exist")
    return row


class Teams(View):
    @describe("Teams of a tenant", page_of(shapes.TeamShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, Team.objects.prefetch_related("roles"), "name", shapes.show_team)


class TeamOne(View):
    @describe("A team", shapes.TeamShape)
    def get(self, request: Request, tenant: str, team: str) -> Response:
        with tenant_scope(tenant):
            return Response(shapes.show_team(existing_team(team)))

    @describe("Create a team, or change what all its members may do", shapes.TeamShape, shapes.NewTeam)
    def put(self, request: Request, tenant: str, team: str) -> Response:
        given = self.read(shapes.NewTeam)
        roles = [actions.RoleOfTeam(role.role, role.namespace, role.topics) for role in given.roles]
        return Response(shapes.show_team(actions.set_team(self.actor(), tenant, team, roles, given.description)))

    @describe("Delete a team; its members lose what they have through it", None, status=204)
    def delete(self, request: Request, tenant: str, team: str) -> Response:
        actions.delete_team(self.actor(), tenant, team)
        return Response(status=204)


class TeamMembers(View):
    @describe("Members of a team", page_of(shapes.TeamMemberShape), parameters=PAGE)
    def get(self, request: Request, tenant: str, team: str) -> Response:
        with tenant_scope(tenant):
            rows = TeamMember.objects.filter(team=existing_team(team)).select_related("user")
            return page(request, rows, "id", shapes.show_team_member)


class TeamMemberOne(View):
    @describe("Add a member of the tenant to a team", shapes.TeamMemberShape)
    def put(self, request: Request, tenant: str, team: str, username: str) -> Response:
        actions.add_team_member(self.actor(), tenant, team, username)
        return Response(shapes.TeamMemberShape(username=username))

    @describe("Remove somebody from a team", None, status=204)
    def delete(self, request: Request, tenant: str, team: str, username: str) -> Response:
        actions.remove_team_member(self.actor(), tenant, team, username)
        return Response(status=204)
