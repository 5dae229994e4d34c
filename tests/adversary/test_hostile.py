"""Thirty thousand hostile frames of the campaign (`make hostile` sends ten million), and that its checks can fail."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.adversary.hostile import peers, rest, visiting, visits
from tests.adversary.hostile.binary_frames import BinaryFrames
from tests.adversary.hostile.campaign import FRAMES_A_PEER, Failed, Round, campaign, made_round, shown, target
from tests.adversary.hostile.peers import NotServed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("platforms")]


async def test_thirty_thousand_hostile_frames_disturb_no_other_client(tmp_path: Path) -> None:
    result = await campaign(tmp_path, frames=30_000, seed=13)
    assert result.left_open > result.connections // 3, "or most frames were never looked at"
    assert result.songs > 15 and result.topics_used >= 8


async def test_a_tenant_that_does_all_it_may_disturbs_no_other_client(tmp_path: Path) -> None:
    result = await visiting.campaign(tmp_path, visits=24, seed=5)
    assert set(result.steps) == {step.__name__ for step in (*visits.BEGINNING, *visits.STEPS)}, "or it did not do all it may"
    assert result.refused.total() < result.steps.total() // 3, "or most of what it did was refused"
    assert result.songs > 24


async def test_nobody_notices_a_tenant_that_asks_for_everything(tmp_path: Path) -> None:
    result = await rest.campaign(tmp_path, visits=9, seed=5)
    assert result.requests == 9 * rest.REQUESTS_A_VISIT and result.routes > 100
    assert sum(count for status, count in result.statuses.items() if status < 300) > result.requests // 10, "or nothing was done"
    assert result.songs > 5


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [(500, b"{}", "with 500"), (503, b"", "with 503"), (502, b'{"reason": "x"}', "with 502"), (200, b"[word]", "the neighbour's")],
)
def test_an_answer_that_nobody_may_get_is_noticed(status: int, body: bytes, why: str) -> None:
    asked = rest.Request("GET", "/", None)
    with pytest.raises(NotServed, match=why):
        rest.judge(asked, status, body, "word")
    for fine, text in (200, b"[]"), (404, b"{}"), (501, b"{}"), (503, b'{"reason": "there are no transactions"}'):
        rest.judge(asked, fine, text, "word")


def test_a_visit_is_the_same_whenever_it_is_made() -> None:
    assert visits.steps_of(Random(7), 50) == visits.steps_of(Random(7), 50) != visits.steps_of(Random(8), 50)
    assert "hostile.visiting --seed 8 --peers 4 --round 3" in str(Failed("why", 8, 3, 4, "visiting"))


async def test_a_broker_that_ended_is_noticed(tmp_path: Path) -> None:
    async with target(tmp_path) as under:
        await under.check()
        under.broker.process.kill()
        under.broker.process.wait()
        with pytest.raises(NotServed, match="the broker ended with code"):
            await under.check()


async def test_a_canary_that_is_not_served_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "SERVED_S", 0.1)
    async with target(tmp_path) as under:
        await under.canary.close()
        with pytest.raises(NotServed, match="the canary sang 0 songs"):
            await under.canary.sing()


def test_a_round_is_the_same_whenever_it_is_made() -> None:
    attack = made_round(7, 3)
    assert attack == made_round(7, 3) != made_round(8, 3)
    assert attack.frames > FRAMES_A_PEER
    assert "seed 8 --round 3" not in shown(attack)
    assert "--seed 8 --peers 8 --round 3" in str(Failed("why", 8, 3))


def test_every_kind_of_command_and_of_trouble_is_among_the_frames() -> None:
    source = BinaryFrames(1)
    talk = [source.conversation(300) for _ in range(20)]
    kinds = {frame[9] for conversation in talk for frame in conversation.frames if frame[8:9] == b"\x08" and len(frame) > 9}
    assert len(kinds) > 18
    talk += [source.conversation(1) for _ in range(200)]
    assert {conversation.ends for conversation in talk} == {True, False} == {bool(conversation.opening) for conversation in talk}
    assert Round([], []).frames == 0
