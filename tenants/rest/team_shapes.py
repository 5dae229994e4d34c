"""The objects of teams."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.bodies import Text, Time
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from tenants.models import Team, TeamMember
from tenants.rest.shapes import shown


class TeamRoleShape(msgspec.Struct, kw_only=True):
    role: Annotated[Text, limits.NAME, Meta(description="A built-in role but owner, or one of the tenant's own.")]
    namespace: Annotated[
        str, limits.NAME, Meta(description="Where the role holds: a namespace without the tenant; empty: in the whole tenant.")
    ] = ""
    topics: Annotated[
        str, limits.NAME, Meta(description="A pattern of names of topics, in which * stands for any characters; empty: all.")
    ] = ""


class TeamShape(msgspec.Struct, kw_only=True):
    name: str
    description: str
    roles: Annotated[list[TeamRoleShape], Meta(description="What each of its members has.")]
    member_count: int
    created_at: Time


class NewTeam(msgspec.Struct, kw_only=True):
    roles: Annotated[
        list[TeamRoleShape],
        Limit("each is looked at in a check", count_max=20),
        Meta(description="What each of its members has, and nothing else through this team."),
    ]
    description: Annotated[str, Limit("is shown in lists", bytes_max=200)] = ""


class TeamMemberShape(msgspec.Struct, kw_only=True):
    username: str


def show_team(row: Team) -> TeamShape:
    """`roles` and `members` of the row may have been read before."""
    roles = [
        TeamRoleShape(role=role.role, namespace=(role.namespace_id or "").partition("/")[2], topics=role.topics)
        for role in row.roles.all()
    ]
    return shown(TeamShape, row, roles=roles, member_count=row.members.count())


def show_team_member(row: TeamMember) -> TeamMemberShape:
    return TeamMemberShape(username=row.user.username)
