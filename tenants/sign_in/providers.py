"""The providers of OpenID Connect with which people may sign in: a TOML file that the setting `sign_in_providers_file` names.

[[provider]]
id = "corp"                                    # part of its redirect address: https://CONSOLE/sign-in/with/corp/return
name = "Corp"                                  # on the button
issuer = "https://login.corp.example"
client_id = "magnetar"
client_secret_file = "/run/secrets/corp"

[[provider.role]]                              # of several that match, the first one of each tenant counts
claim = "groups"
value = "messaging"
tenant = "acme"
role = "developer"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from messaging.protocol.names import NAME_LENGTH_MAX
from messaging.settings import ConfigError, Settings

PROVIDERS_MAX, ROLES_MAX = 20, 1_000
FILE_BYTES_MAX = 1 << 20
_Text = Annotated[str, Meta(min_length=1, max_length=255)]
_Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]


class RoleRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose claim has the value, or a list with it, gets the role in the tenant. `claim`: a name, or names with dots between."""

    claim: _Text = "groups"
    value: _Text
    tenant: _Name
    role: _Name


class SignInProvider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`emails_verified`: its mail addresses are proven even where it does not say so. `links_accounts`: whoever it says has the
    confirmed address of an account here may sign in to that. `second_factor`: it asks for one itself, which counts here."""

    id: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,29}$")]
    name: Annotated[str, Meta(min_length=1, max_length=40)]
    issuer: _Text
    client_id: Annotated[str, Meta(min_length=1, max_length=191)]
    client_secret_file: str = ""  # none: a public client, which PKCE protects
    scopes: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=20)] = ("openid", "profile", "email", "offline_access")
    emails_verified: bool = False
    links_accounts: bool = False
    second_factor: bool = False
    refresh_min: Annotated[int, Meta(ge=1, le=1_440)] = 15  # minutes after which it is asked again whether somebody still may
    grace_min: Annotated[int, Meta(ge=0, le=1_440)] = 60  # how much longer what it said last holds while it is not responding
    role: Annotated[tuple[RoleRule, ...], Meta(max_length=ROLES_MAX)] = ()

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
            raise ValueError(f"issuer {self.issuer!r} is not a https:// address")
        if "openid" not in self.scopes:
            raise ValueError("scopes lack openid")

    @property
    def secret(self) -> str:
        """Raises `ConfigError` for a file that cannot be read."""
        if not self.client_secret_file:
            return ""
        try:
            return Path(self.client_secret_file).read_text().strip()
        except OSError as error:
            raise ConfigError(
                f"client_secret_file {self.client_secret_file} of sign-in provider {self.id} cannot be read: {error.strerror}"
            ) from None

    def roles_of(self, claims: Mapping[str, Any]) -> dict[str, str]:
        """Tenant to role, as the claims have it."""
        given: dict[str, str] = {}
        for rule in self.role:
            if rule.tenant not in given and rule.value in _values(claims, rule.claim):
                given[rule.tenant] = rule.role
        return given


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    provider: Annotated[tuple[SignInProvider, ...], Meta(max_length=PROVIDERS_MAX)] = ()


def providers_of(settings: Settings) -> Mapping[str, SignInProvider]:
    """By their ids; read once a process. Raises `ConfigError`."""
    return _read(settings.sign_in_providers_file) if settings.sign_in_providers_file else {}


@lru_cache(maxsize=8)
def _read(file: str) -> Mapping[str, SignInProvider]:
    try:
        text = Path(file).read_bytes()[: FILE_BYTES_MAX + 1]
    except OSError as error:
        raise ConfigError(f"sign_in_providers_file {file} cannot be read: {error.strerror}") from None
    if len(text) > FILE_BYTES_MAX:
        raise ConfigError(f"sign_in_providers_file {file} has more than {FILE_BYTES_MAX} bytes")
    try:
        listed = msgspec.toml.decode(text, type=_File).provider
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"sign_in_providers_file {file}: {error}") from None
    by_id = {provider.id: provider for provider in listed}
    if len(by_id) < len(listed):
        raise ConfigError(f"sign_in_providers_file {file}: two providers have the same id")
    for provider in listed:
        _ = provider.secret  # a file that is missing stops the start, not the first person who signs in
    return by_id


def _values(claims: Mapping[str, Any], name: str) -> list[Any]:
    value: Any = claims.get(name)
    if value is None and "." in name:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, list) else [value]


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
