"""Roles, members and teams of a tenant, as `magnetar plan` finds them and `magnetar apply` makes them."""

from __future__ import annotations

from typing import Any

from controlplane.cli.remote.desired_parts import Change
from controlplane.cli.remote.desired_rights import PLACE_FIELDS, Rights, placed_role

Admin = Any  # `messaging.client.admin.Admin`


def actual_rights(admin: Admin, tenant: str, wanted: Rights | None) -> Rights:
    """All of them, or the kinds that `wanted` names. Calls: one for each kind, which for teams are two, and one for each team whose
    members matter.

    Who is a member for a time is no part of a file: applied later it would make them one again, and for good."""
    actual = Rights()
    for_a_time: set[str] = set()
    if wanted is None or wanted.roles:
        own = (role for role in admin.roles.each(tenant) if not role["built_in"])
        actual.roles = {role["name"]: {"description": role["description"], "actions": sorted(role["actions"])} for role in own}
    if wanted is None or wanted.members or wanted.teams:
        for member in admin.members.each(tenant):
            if member["expires_at"]:
                for_a_time.add(member["username"])
            elif wanted is None or wanted.members:
                actual.members[member["username"]] = _placed(member)
    if wanted is None or wanted.teams:
        for team in admin.teams.each(tenant):
            roles = sorted((_placed(role) for role in team["roles"]), key=lambda role: tuple(role[name] for name in PLACE_FIELDS))
            actual.teams[team["name"]] = {"description": team["description"], "roles": roles}
            if wanted is None or "members" in wanted.teams.get(team["name"], {}):
                named = [] if wanted is None else wanted.teams[team["name"]]["members"]
                members = {member["username"] for member in admin.team_members.each(tenant, team["name"])}
                actual.teams[team["name"]]["members"] = sorted(members - (for_a_time - {*named}))
    return actual


def _placed(given: Any) -> dict[str, str]:
    """With the local name of the namespace, as a file has it and the API takes it."""
    local = {"namespace": given["namespace"].rpartition("/")[2]}
    return placed_role({name: given[name] for name in PLACE_FIELDS} | local, "the answer")


def make_rights(admin: Admin, tenant: str, change: Change) -> None:
    (name,) = change.place
    body: Any = change.after
    match change.kind, change.verb:
        case "role", "delete":
            admin.roles.delete(tenant, name)
        case "role", _:
            admin.roles.set(tenant, name, body)
        case "member", "delete":
            admin.members.delete(tenant, name)
        case "member", _:
            admin.members.set(tenant, name, {field: value for field, value in body.items() if value})
        case "team", "delete":
            admin.teams.delete(tenant, name)
        case "team", _:
            roles = [{field: value for field, value in role.items() if value} for role in body["roles"]]
            admin.teams.set(tenant, name, {"description": body["description"], "roles": roles})
        case _:
            for username in sorted({*change.before} - {*body}):
                admin.team_members.delete(tenant, name, username)
            for username in sorted({*body} - {*change.before}):
                admin.team_members.set(tenant, name, username)
