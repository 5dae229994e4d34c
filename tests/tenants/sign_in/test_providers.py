"""The file of sign-in providers: what is refused, and which roles claims give."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from messaging.settings import ConfigError, Settings
from tenants.models import ProviderLogin
from tenants.sign_in.holding import holding
from tenants.sign_in.providers import RoleRule, SignInProvider, providers_of

LEAST = '[[provider]]\nid = "corp"\nname = "Corp"\nissuer = "https://login.corp.test"\nclient_id = "magnetar"\n'
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def read(folder: Path, text: str) -> dict[str, SignInProvider]:
    file = folder / "providers.toml"
    file.write_text(text)
    return dict(providers_of(Settings(sign_in_providers_file=str(file))))


def test_no_file_is_no_provider() -> None:
    assert providers_of(Settings()) == {}


def test_several_providers(tmp_path: Path) -> None:
    listed = read(tmp_path, LEAST + LEAST.replace("corp", "partner"))
    assert sorted(listed) == ["corp", "partner"]
    assert (listed["corp"].refresh_min, listed["corp"].secret) == (15, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LEAST + LEAST, "two providers have the same id"),
        (LEAST + "colour = 1\n", "colour"),
        (LEAST.replace("https", "http"), "is not a https:// address"),
        (LEAST.replace('"corp"', '"Corp/../"'), "id"),
        (LEAST + 'scopes = ["email"]\n', "scopes lack openid"),
        (LEAST + "refresh_min = 0\n", "refresh_min"),
        (LEAST + 'client_secret_file = "/nowhere/secret"\n', "client_secret_file /nowhere/secret"),
        ("[[provider", "providers.toml"),
    ],
)
def test_what_is_wrong_stops_the_start_and_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read(tmp_path, text)


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="sign_in_providers_file /nowhere cannot be read"):
        providers_of(Settings(sign_in_providers_file="/nowhere"))


def test_claims_give_the_first_role_of_each_tenant() -> None:
    rules = (
        RoleRule(value="ops", tenant="acme", role="operator"),
        RoleRule(value="staff", tenant="acme", role="viewer"),
        RoleRule(claim="realm.level", value="boss", tenant="globex", role="admin"),
        RoleRule(claim="https://corp.test/level", value="boss", tenant="other", role="admin"),
    )
    provider = SignInProvider(id="corp", name="Corp", issuer="https://c.test", client_id="m", role=rules)
    assert provider.roles_of({"groups": ["staff", "ops"]}) == {"acme": "operator"}
    assert provider.roles_of({"groups": "staff", "realm": {"level": "boss"}}) == {"acme": "viewer", "globex": "admin"}
    assert provider.roles_of({"https://corp.test/level": ["boss"]}) == {"other": "admin"}
    assert provider.roles_of({"groups": {"ops": True}, "realm": "boss"}) == {}


@pytest.mark.parametrize(("token", "minutes"), [("t", 75), ("", 15)])
def test_what_a_provider_said_holds_longer_where_it_can_be_asked_again(token: str, minutes: int) -> None:
    provider = SignInProvider(id="corp", name="Corp", issuer="https://c.test", client_id="m")
    login = ProviderLogin(provider="corp", refresh_token=token, refreshed_at=NOW)
    until = NOW + timedelta(minutes=minutes)
    assert holding({"corp": provider}, [login], until - timedelta(seconds=1)) == [provider]
    assert holding({"corp": provider}, [login], until) == []
    assert holding({}, [login], NOW) == [], "a provider that was taken out of the file vouches for nobody"
    login.ended_at = NOW
    assert holding({"corp": msgspec.structs.replace(provider)}, [login], NOW) == []
