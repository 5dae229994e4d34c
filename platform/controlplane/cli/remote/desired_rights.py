"""Roles, members and teams in files of `magnetar plan`. Pure.

The API refuses to give away more than whoever applies the file has, and to leave a tenant without an owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from controlplane.cli.remote.desired_parts import Change, Json, WrongFile, named, object_of
from messaging.permissions.roles import complete, known

PLACE_FIELDS = ("role", "namespace", "topics")  # a role, and where it holds


@dataclass
class Rights:
    """By name. Of a role its `description` and `actions`, of a member its `PLACE_FIELDS`, of a team `description`, `roles` and
    `members`: of a file those that it says."""

    roles: dict[str, Json] = field(default_factory=dict)
    members: dict[str, Json] = field(default_factory=dict)
    teams: dict[str, Json] = field(default_factory=dict)


# --- reading ---------------------------------------------------------------------------------------------------------------------


def parsed_rights(top: Json) -> Rights:
    """Raises `WrongFile` that names the place."""
    return Rights(
        {name: _role(given, f"roles.{name}") for name, given in named(top.get("roles"), "roles")},
        {name: placed_role(given, f"members.{name}") for name, given in named(top.get("members"), "members")},
        {name: _team(given, f"teams.{name}") for name, given in named(top.get("teams"), "teams")},
    )


def _role(given: Any, at: str) -> Json:
    body = dict(object_of(given, at, ("description", "actions")))
    if "actions" not in body:
        raise WrongFile(f"{at} has no actions: list what the role may do, such as [produce, consume]")
    actions = _listed(body["actions"], f"{at}.actions")
    # The API shows a role with all that comes with its actions; of others than these it says that they are none.
    return _described(body, at) | {"actions": sorted({*actions, *map(str, complete(known(actions)))})}


def _team(given: Any, at: str) -> Json:
    body = dict(object_of(given, at, ("description", "roles", "members")))
    team = _described(body, at)
    if "roles" in body:
        if not isinstance(body["roles"], list):
            raise WrongFile(f"{at}.roles is not a list")
        team["roles"] = _ordered(placed_role(role, f"{at}.roles") for role in body["roles"])
    if "members" in body:
        team["members"] = sorted(_listed(body["members"], f"{at}.members"))
    return team


def placed_role(given: Any, at: str) -> Json:
    """A role and where it holds; its name alone: in the whole tenant. Raises `WrongFile`."""
    body = object_of({"role": given} if isinstance(given, str) else given, at, PLACE_FIELDS)
    placed = {name: body.get(name) or "" for name in PLACE_FIELDS}
    if not placed["role"] or not all(isinstance(value, str) for value in placed.values()):
        raise WrongFile(f"{at} is no role: use the name of one, or role, namespace and topics as texts")
    return placed


def _described(body: Json, at: str) -> Json:
    if "description" not in body:
        return {}
    if not isinstance(body["description"], str):
        raise WrongFile(f"{at}.description is {body['description']!r}, which is no text: put it in quotes")
    return {"description": body["description"]}


def _listed(given: Any, at: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) and each for each in given):
        raise WrongFile(f"{at} is not a list of names")
    return list(dict.fromkeys(given))


def _ordered(roles: Any) -> list[Json]:
    return sorted(roles, key=lambda role: tuple(role[name] for name in PLACE_FIELDS))


# --- comparing -------------------------------------------------------------------------------------------------------------------


def rights_changes(desired: Rights, actual: Rights) -> Iterator[Change]:
    """In an order that works: a role before whoever has it, a member before their team."""
    yield from _all("role", desired.roles, actual.roles)
    yield from _all("member", desired.members, actual.members)
    for name, team in desired.teams.items():
        present = actual.teams.get(name)
        said = {each: value for each, value in team.items() if each != "members"}
        if present is None:
            yield Change("create", "team", (name,), after={"description": "", "roles": []} | said)
        elif any(present.get(each) != value for each, value in said.items()):
            before = {each: present.get(each) for each in ("description", "roles")}
            yield Change("change", "team", (name,), before, before | said)
        before_members = (present or {}).get("members", [])
        if "members" in team and team["members"] != before_members:
            yield Change("change", "members", (name,), before_members, team["members"])


def removed_rights(desired: Rights, actual: Rights) -> Iterator[Change]:
    """Last, and the other way round."""
    if desired.teams:
        yield from (Change("delete", "team", (name,)) for name in actual.teams if name not in desired.teams)
    if desired.members:
        yield from (Change("delete", "member", (name,)) for name in actual.members if name not in desired.members)
    if desired.roles:
        yield from (Change("delete", "role", (name,)) for name in actual.roles if name not in desired.roles)


def _all(kind: str, wanted: dict[str, Json], actual: dict[str, Json]) -> Iterator[Change]:
    for name, body in wanted.items():
        present = actual.get(name)
        if present is None:
            yield Change("create", kind, (name,), after=body)
        elif any(present.get(each) != value for each, value in body.items()):
            yield Change("change", kind, (name,), present, present | body)


# --- writing ---------------------------------------------------------------------------------------------------------------------


def exported_rights(rights: Rights) -> Json:
    """As a file says them, without what is empty."""
    return {
        "roles": {name: _given(role) for name, role in sorted(rights.roles.items())},
        "members": {name: _short(member) for name, member in sorted(rights.members.items())},
        "teams": {name: _shown_team(team) for name, team in sorted(rights.teams.items())},
    }


def _shown_team(team: Json) -> Json:
    return _given(team) | {"roles": [_short(role) for role in team.get("roles", [])], "members": team.get("members", [])}


def _short(placed: Json) -> Json | str:
    given = _given(placed)
    return str(given["role"]) if list(given) == ["role"] else given


def _given(body: Json) -> Json:
    return {name: value for name, value in body.items() if value}
