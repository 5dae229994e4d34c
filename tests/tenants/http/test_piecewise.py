"""What is sent piece by piece ends with the right to it, of people and of keys, wherever it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from messaging import caller
from messaging.errors import AuthenticationFailed, MagnetarError, NotAuthorized
from tenants import actions
from tenants.actions.people import end_sessions
from tenants.http.piecewise import PiecewiseResponse, turns
from tenants.models import Key, Membership, Tenant
from tests.tenants.world import Caller, World

OF_ACME = "/api/v1/tenants/acme"
FILES = [
    f"{OF_ACME}/audit/export",
    f"{OF_ACME}/audit/export?format=csv",
    f"{OF_ACME}/usage/days",
    f"{OF_ACME}/usage/parquet",
]
PAGES = ["/tenants/acme/audit/export", "/usage/export"]


def begun(answer: Any) -> Any:
    """The pieces of an answer of which none was sent yet."""
    assert answer.status_code == 200
    return answer.streaming_content


def refused(pieces: Any, error: type[MagnetarError], why: str | None = None) -> None:
    with pytest.raises(error, match=why):
        next(iter(pieces))


def test_each_piece_is_sent_only_while_it_may_be() -> None:
    allowed = [True, True, False]

    def require_still() -> None:
        if not allowed.pop(0):
            raise NotAuthorized("no more")

    answer = PiecewiseResponse(iter([b"a", b"b", b"c"]), require_still, "text/plain")
    pieces = iter(answer)
    assert [next(pieces), next(pieces)] == [b"a", b"b"]
    with pytest.raises(NotAuthorized, match="no more"):
        next(pieces)


@pytest.mark.parametrize("path", [*FILES, *PAGES])
def test_it_ends_with_a_membership(world: World, caller: Callable[[str], Caller], path: str) -> None:
    actions.set_member(world.actor("olga"), "acme", "tom", "admin")
    assert b"".join(begun(caller("tom")("GET", path))) is not None
    pieces = begun(caller("tom")("GET", path))
    actions.remove_member(world.actor("olga"), "acme", "tom")
    refused(pieces, NotAuthorized)


@pytest.mark.parametrize("path", [*FILES, *PAGES, "/api/v1/audit/export", "/audit/export"])
def test_it_ends_with_the_session(world: World, caller: Callable[[str], Caller], path: str) -> None:
    pieces = begun(caller("admin")("GET", path))
    end_sessions(world.admin, "admin")
    refused(pieces, AuthenticationFailed, "session has ended")


@pytest.mark.parametrize("path", FILES)
def test_it_ends_with_the_key(world: World, path: str) -> None:
    Tenant.unscoped.filter(name="acme").update(admin_roles=["reports@acme"])
    pieces = begun(Caller(world.token("reports@acme"))("GET", path))
    actions.revoke_key(world.actor("olga"), "acme", Key.unscoped.get(role="reports@acme").id)
    refused(pieces, AuthenticationFailed, "was revoked")


def test_it_ends_with_what_a_role_of_keys_may(world: World) -> None:
    Tenant.unscoped.filter(name="acme").update(admin_roles=["reports@acme"])
    pieces = begun(Caller(world.token("reports@acme"))("GET", FILES[0]))
    Tenant.unscoped.filter(name="acme").update(admin_roles=[])
    refused(pieces, NotAuthorized)


def test_it_goes_on_for_those_who_still_may(world: World, caller: Callable[[str], Caller]) -> None:
    pieces = begun(caller("olga")("GET", FILES[0]))
    actions.remove_member(world.actor("olga"), "acme", "tom")
    assert b"member.remove" in b"".join(pieces) and Membership.unscoped.filter(tenant="acme").count() == 1


async def test_pieces_are_made_in_turns_of_callers() -> None:
    making: list[str] = []

    def pieces(who: str) -> Iterator[bytes]:
        for _ in range(3):
            making.append(who)
            yield b"x"

    async def read(who: str) -> int:
        with caller.working_for(caller.Caller(who)):
            response = PiecewiseResponse(pieces(who), lambda: None, "text/plain")
            return len([piece async for piece in response])

    assert turns.slots.served.total() == 0
    assert await asyncio.gather(*(read("many") for _ in range(5)), read("other")) == [3] * 6
    assert making.index("other") <= 2 and turns.slots.served.total() == 0
