"""Which requests of /api/v1 the forms about keys, roles, issuers, policies and audit streams make: `admin_ui.calls` writes them
down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from admin_ui.calls import Call
from tenants.actions.issuers import IssuerTerms
from tenants.actions.keys import KeyUse
from tenants.actions.teams import RoleOfTeam

NOT_NAMED = "NAME"  # while a form has no name yet


def create_key(
    tenant: str, name: str, expires_at: datetime | None, scope: Sequence[KeyUse] | None, networks: Sequence[str] = ()
) -> Call:
    body: dict[str, Any] = {"name": name or NOT_NAMED}
    command = ["keys", "create", body["name"], "--tenant", tenant]
    if expires_at is not None:
        body["expires_at"] = f"{expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        command += ["--expires-at", body["expires_at"]]
    if scope is not None:
        body["scope"] = [_use(use) for use in scope]
        for action in ("produce", "consume"):
            for use in scope:
                command += [f"--{action}", _where(use)] if action in use.actions else []
    if networks:
        body["networks"] = list(networks)
        for network in networks:
            command += ["--network", network]
    return Call("POST", ("tenants", tenant, "keys"), "keys.create", (tenant,), body, command=command)


def _use(use: KeyUse) -> dict[str, Any]:
    return {"actions": list(use.actions)} | {
        name: value for name, value in (("namespace", use.namespace), ("topics", use.topics)) if value
    }


def _where(use: KeyUse) -> str:
    """As the command line has it: namespace and pattern, ``*`` for all namespaces."""
    where = use.namespace or "*"
    return f"{where}/{use.topics}" if use.topics else where


def rotate_key(tenant: str, key_id: str, overlap_s: int) -> Call:
    return Call(
        "POST",
        ("tenants", tenant, "keys", key_id, "rotate"),
        "keys.rotate",
        (tenant, key_id),
        {"overlap_s": overlap_s},
        command=("keys", "rotate", key_id, "--overlap-s", str(overlap_s), "--tenant", tenant),
    )


def revoke_key(tenant: str, key_id: str) -> Call:
    path = ("tenants", tenant, "keys", key_id)
    return Call("DELETE", path, "keys.delete", (tenant, key_id), command=("keys", "revoke", key_id, "--tenant", tenant))


def revoke_token(tenant: str) -> Call:
    """The token itself is never shown again."""
    return Call(
        "POST",
        ("tenants", tenant, "keys", "revoke-token"),
        "keys.revoke_token",
        (tenant,),
        {"token": "THE LEAKED TOKEN"},
        command=("keys", "revoke-token", "--token-file", "FILE", "--tenant", tenant),
    )


def grant(
    tenant: str,
    namespace: str,
    role: str,
    actions: Sequence[str],
    days: int = 0,
    topic: str = "",
    expires_at: datetime | None = None,
) -> Call:
    """`namespace` is a local name, and so is `topic`, "": all of the namespace. For so many `days` from now, or until
    `expires_at`; 0 and None: without an end."""
    body: dict[str, Any] = {"actions": list(actions)}
    ends = datetime.now(UTC) + timedelta(days=days) if days else expires_at
    if ends is not None:
        body["expires_at"] = f"{ends.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if topic:
        path = ("tenants", tenant, "namespaces", namespace, "topics", "persistent", topic, "permissions", role)
        return Call("PUT", path, "topic_permissions.set", (tenant, namespace, topic, role), body)
    words: list[str] = []
    for action in actions:
        words += ["--action", action]
    if days:
        words += ["--days", str(days)]
    return Call(
        "PUT",
        ("tenants", tenant, "namespaces", namespace, "permissions", role),
        "namespace_permissions.set",
        (tenant, namespace, role),
        body,
        command=() if expires_at else ("permissions", "set", namespace, role, *words, "--tenant", tenant),
    )


def set_admin_roles(tenant: str, roles: Sequence[str]) -> Call:
    return Call("PATCH", ("tenants", tenant), "tenants.update", (tenant,), {"admin_roles": list(roles)})


def set_role(tenant: str, name: str, actions: Iterable[str], description: str) -> Call:
    name = name or NOT_NAMED
    body: dict[str, Any] = {"actions": list(actions)} | ({"description": description} if description else {})
    words: list[str] = []
    for action in body["actions"]:
        words += ["--action", action]
    words += ["--description", description] if description else []
    path = ("tenants", tenant, "roles", name)
    return Call("PUT", path, "roles.set", (tenant, name), body, command=("roles", "set", name, *words, "--tenant", tenant))


def delete_role(tenant: str, name: str) -> Call:
    path = ("tenants", tenant, "roles", name)
    return Call("DELETE", path, "roles.delete", (tenant, name), command=("roles", "delete", name, "--tenant", tenant))


def set_team(tenant: str, name: str, roles: Sequence[RoleOfTeam], description: str) -> Call:
    name = name or NOT_NAMED
    listed = [_given({"role": role.role, "namespace": role.namespace, "topics": role.topics}) for role in roles]
    body: dict[str, Any] = {"roles": listed} | _given({"description": description})
    words: list[str] = []
    for role in roles:
        where = f"@{role.namespace or '*'}" + (f"/{role.topics}" if role.topics else "")
        words += ["--role", role.role + (where if role.namespace or role.topics else "")]
    words += ["--description", description] if description else []
    path = ("tenants", tenant, "teams", name)
    return Call("PUT", path, "teams.set", (tenant, name), body, command=("teams", "set", name, *words, "--tenant", tenant))


def delete_team(tenant: str, name: str) -> Call:
    path = ("tenants", tenant, "teams", name)
    return Call("DELETE", path, "teams.delete", (tenant, name), command=("teams", "delete", name, "--tenant", tenant))


def add_team_member(tenant: str, name: str, username: str) -> Call:
    username = username or NOT_NAMED
    return Call(
        "PUT",
        ("tenants", tenant, "teams", name, "members", username),
        "team_members.set",
        (tenant, name, username),
        command=("teams", "add", name, username, "--tenant", tenant),
    )


def _given(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def set_policies(place: Sequence[str], changes: Mapping[str, Any]) -> Call:
    """`place`: tenant, or tenant and namespace, or both and a topic, by local names. None unsets a policy."""
    resource, plural = (("tenants", ()), ("namespaces", ("namespaces",)), ("topics", ("namespaces", "topics")))[len(place) - 1]
    path = ["tenants", place[0]]
    for noun, name in zip(plural, place[1:], strict=True):
        path += [noun, name]
    words = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in changes.items() if value is not None]
    unset = [name for name, value in changes.items() if value is None]
    where = "/".join(place)
    command: tuple[str, ...] = ("policies", "set", where, *words, *(f"{name}=null" for name in unset)) if words else ()
    command = ("policies", "unset", where, *unset) if unset and not words else command
    return Call("PATCH", (*path, "policies"), f"{resource}.update_policies", place, dict(changes), command=command)


def set_issuer(tenant: str, name: str, terms: IssuerTerms) -> Call:
    name = name or NOT_NAMED
    body = {**terms._asdict(), "roles": dict(terms.roles)}
    words = ["--issuer", terms.issuer, "--audience", terms.audience, "--jwks-url", terms.jwks_url]
    for value, key in terms.roles.items():
        words += ["--role", f"{value}={key}"]
    words += ["--role-claim", terms.role_claim, "--clock-skew-s", str(terms.clock_skew_s)]
    plain = not any("=" in value for value in terms.roles)  # the command takes the first "=" for the end of the value
    command = ("issuers", "set", name, *words, "--tenant", tenant) if plain else ()
    return Call("PUT", ("tenants", tenant, "issuers", name), "issuers.set", (tenant, name), body, command=command)


def delete_issuer(tenant: str, name: str) -> Call:
    path = ("tenants", tenant, "issuers", name)
    return Call("DELETE", path, "issuers.delete", (tenant, name), command=("issuers", "delete", name, "--tenant", tenant))


def set_audit_stream(tenant: str, url: str, *, oldest: bool, topic: str = "") -> Call:
    """`tenant` "": of the platform."""
    target = {"topic": topic} if topic and not url else {"url": url or "https://HOST/PATH"}
    body: dict[str, Any] = target | ({"from_oldest": True} if oldest else {})
    path, client, arguments = _audit_stream(tenant)
    return Call("PUT", path, f"{client}.set_stream", arguments, body)


def purge_recycled_topic(tenant: str, namespace: str, recycle_id: str) -> Call:
    return Call(
        "DELETE",
        ("tenants", tenant, "namespaces", namespace, "recycle-bin", recycle_id),
        "recycle_bin.delete",
        (tenant, namespace, recycle_id),
        command=("recycle-bin", "purge", f"{tenant}/{namespace}", recycle_id),
    )


def purge_recycled_namespace(tenant: str, recycle_id: str) -> Call:
    return Call(
        "DELETE",
        ("tenants", tenant, "recycled-namespaces", recycle_id),
        "recycled_namespaces.delete",
        (tenant, recycle_id),
        command=("recycle-bin", "purge-namespace", tenant, recycle_id),
    )


def purge_recycled_tenant(recycle_id: str) -> Call:
    return Call(
        "DELETE",
        ("recycled-tenants", recycle_id),
        "recycled_tenants.delete",
        (recycle_id,),
        command=("recycle-bin", "purge-tenant", recycle_id),
    )


def delete_audit_stream(tenant: str) -> Call:
    path, client, arguments = _audit_stream(tenant)
    return Call("DELETE", path, f"{client}.delete_stream", arguments)


def _audit_stream(tenant: str) -> tuple[Sequence[str], str, Sequence[str]]:
    if not tenant:
        return ("audit", "stream"), "audit", ()
    return ("tenants", tenant, "audit", "stream"), "tenant_audit", (tenant,)


def set_spend_cap(tenant: str, given: Mapping[str, Any], rates: Mapping[str, int]) -> Call:
    """`given`: of the form, as far as it is filled in; `rates` by policy."""
    set_by = given.get("set_by") or "tenant"
    body = {"amount": given.get("amount") or "AMOUNT", "currency": given.get("currency") or "EUR"}
    chosen = {name.removeprefix("tenant_"): rate for name, rate in rates.items() if rate}
    action = given.get("action") or "stop"
    words = [word for name, rate in chosen.items() for word in (f"--{name.replace('_', '-')}", str(rate))]
    return Call(
        "PUT",
        ("tenants", tenant, "spend-caps", set_by),
        f"tenants.set_spend_caps_{set_by}",
        (tenant,),
        {**body, "action": action, **chosen},
        command=(
            *("spend-caps", "set", body["amount"], body["currency"], "--action", action, *words),
            *(["--platform"] if set_by == "platform" else []),
            *("--tenant", tenant),
        ),
    )


def explain(tenant: str, asked: Mapping[str, str]) -> Call:
    """`asked`: parameters of the query that are not empty."""
    words: list[str] = []
    for name, value in asked.items():
        words += [] if name == "action" else [f"--{name.replace('_', '-')}", value]
    return Call(
        "GET",
        ("tenants", tenant, "access"),
        "tenants.access",
        (tenant,),
        query=dict(asked),
        command=("access", asked.get("action", "ACTION"), *words, "--tenant", tenant),
    )


def tune(asked: Mapping[str, Any]) -> Call:
    """`asked`: fields of the body that are given. The command computes the same without a request."""
    words: list[str] = []
    for name, value in asked.items():
        option = f"--{'rate' if name == 'messages_per_s' else name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        else:
            words += [option, str(value)]
    return Call("POST", ("tune",), "platform.tune", (), dict(asked), command=("tune", *words))
