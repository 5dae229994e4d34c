"""The hostile campaign: a real broker, peers that send it what nobody should, and a canary that must not notice.

    python -m tests.adversary.hostile.campaign --frames 10000000 --seed 7

Checked after every round: the broker lives, the canary is served, resident memory is within the budget and 64 MiB. From time to
time, and at the end: every topic that was touched can be published to, consumed, unloaded and deleted. Rounds depend on the seed
and their number alone. What fails is tried again by itself, on a broker of its own, with ever fewer frames, and printed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import FEED_APPLY, TOPICS_DELETE, TOPICS_LIST, TOPICS_UNLOAD
from messaging.adminrpc.topics import TopicDelete, TopicRef, TopicsList
from messaging.errors import MagnetarError
from messaging.identity import issue_token
from tests.adversary.hostile.binary_frames import BinaryFrames, Conversation
from tests.adversary.hostile.peers import Canary, NotServed, speak, speak_web, use
from tests.adversary.hostile.web_frames import WebFrames
from tests.benchmarks.real_broker import RealBroker

PEERS = 8  # at a time, unless it is said otherwise: the broker makes each of them wait its turn, so that more send more together
FRAMES_A_PEER = 150
WEB_SHARE = 8  # one conversation over WebSocket to so many over the binary protocol
USED_EVERY_FRAMES = 250_000  # after which all topics are used, unloaded and deleted
MEMORY_OVER_BUDGET = 64 << 20
CANARY = "persistent://canary/cage/songs"
ATTEMPTS_MAX = 24  # at a smaller failure
ROLE, KEY = "admin", "superuser"


class Result(NamedTuple):
    frames: int
    connections: int
    left_open: int
    songs: int
    topics_used: int
    resident_bytes_max: int


class Failed(AssertionError):
    """`round_number` is the one after which a check failed."""

    def __init__(self, message: str, seed: int, round_number: int, peers: int = PEERS, of: str = "campaign") -> None:
        options = f"--seed {seed} --peers {peers} --round {round_number}"
        super().__init__(f"{message}\nAgain: python -m tests.adversary.hostile.{of} {options}")
        self.round_number = round_number


class Round(NamedTuple):
    binary: list[Conversation]
    web: list[tuple[str, list[str]]]

    @property
    def frames(self) -> int:
        return sum(len(conversation.frames) for conversation in self.binary) + sum(len(texts) for _, texts in self.web)


def made_round(seed: int, number: int, peers: int = PEERS) -> Round:
    source, web_source = BinaryFrames(seed * 1_000_003 + number), WebFrames(seed * 1_000_003 + number)
    binary = [source.conversation(FRAMES_A_PEER) for _ in range(peers)]
    web = [web_source.conversation(FRAMES_A_PEER) for _ in range(max(1, peers // WEB_SHARE))]
    return Round(binary, web)


class Target:
    """The broker under attack, and who watches it."""

    def __init__(self, broker: RealBroker, token: str, canary: Canary) -> None:
        self.broker = broker
        self.token = token
        self.canary = canary
        self.topics_used = 0
        self._read = 0  # of the broker's log

    async def suffer(self, attack: Round) -> int:
        """How many of its connections were open at the end of what they had to say."""
        url = self.broker.addresses["ws_url"]
        binary = [speak(self.broker.address, conversation) for conversation in attack.binary]
        web = [speak_web(url, path, texts) for path, texts in attack.web]
        return sum(await asyncio.gather(*binary, *web))

    async def check(self) -> None:
        """Raises `NotServed`."""
        if self.broker.process.poll() is not None:
            raise NotServed(f"the broker ended with code {self.broker.process.returncode}")
        fault = self._fault()
        if fault:
            raise NotServed(f"the broker logged a fault: {fault}")
        await self.canary.sing()
        resident, most = self.broker.cost().resident_bytes, self.broker.settings.memory_budget_bytes + MEMORY_OVER_BUDGET
        if resident > most:
            raise NotServed(f"{resident} bytes are resident; the budget and {MEMORY_OVER_BUDGET} are {most}")

    def _fault(self) -> str:
        """The first traceback in what the broker logged since it was asked last."""
        with Path(self.broker.log.name).open() as log:
            log.seek(self._read)
            lines = log.read()
            self._read = log.tell()
        return next((line[:3000] for line in lines.splitlines() if "Traceback" in line or "never awaited" in line), "")

    async def use_topics(self) -> None:
        rpc = self.broker.rpc
        listed = rpc.call(TOPICS_LIST, TopicsList(namespace="public/default"))
        for topic in [*listed.topics]:
            try:
                await use(self.broker.address[1], self.token, topic)
                rpc.call(TOPICS_UNLOAD, TopicRef(topic=topic))
                rpc.call(TOPICS_DELETE, TopicDelete(topic=topic, force=True))
            except MagnetarError as error:
                raise NotServed(f"topic {topic} cannot be unloaded and deleted: {error}") from None
            self.topics_used += 1


@asynccontextmanager
async def target(folder: Path) -> AsyncIterator[Target]:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    broker = RealBroker(folder)
    try:
        changes = [
            FeedChange(version=3, kind="tenant", key="canary", state={"admin_roles": []}),
            FeedChange(version=4, kind="namespace", key="canary/cage", state={}),
            FeedChange(version=5, kind="key", key=KEY, state={"role": ROLE, "tenant": "", "revoked": False}),
        ]
        broker.rpc.call(FEED_APPLY, FeedApply(from_version=2, to_version=5, changes=changes))
        token = issue_token(broker.settings, ROLE, KEY, int(time.time()))
        canary = await Canary.hatch(broker.address[1], token, CANARY)
        yield Target(broker, token, canary)
        await canary.close()
    finally:
        broker.close()


async def campaign(folder: Path, frames: int, seed: int, peers: int = PEERS, progress: bool = False) -> Result:
    """Raises `Failed`."""
    sent = connections = left_open = number = resident_max = 0
    begun = time.monotonic()
    async with target(folder / "broker") as under:
        while sent < frames:
            attack = made_round(seed, number, peers)
            try:
                left_open += await under.suffer(attack)
                await under.check()
                if sent // USED_EVERY_FRAMES != (sent + attack.frames) // USED_EVERY_FRAMES:
                    await under.use_topics()
            except NotServed as error:
                raise Failed(str(error), seed, number, peers) from None
            number += 1
            sent += attack.frames
            connections += len(attack.binary) + len(attack.web)
            resident_max = max(resident_max, under.broker.cost().resident_bytes)
            if progress and number % 50 == 0:
                speed = sent / (time.monotonic() - begun)
                print(f"{sent:,} frames, {speed:,.0f}/s, {resident_max >> 20} MiB, {under.topics_used} topics used", flush=True)
        try:
            await under.use_topics()
        except NotServed as error:
            raise Failed(str(error), seed, number - 1, peers) from None
        return Result(sent, connections, left_open, under.canary.songs, under.topics_used, resident_max)


async def fails(folder: Path, attack: Round) -> str:
    """What fails after this round alone, on a new broker; "" for nothing."""
    async with target(folder) as under:
        try:
            await under.suffer(attack)
            await under.check()
            await under.use_topics()
            await under.check()  # what was still under way has been done by now
        except NotServed as error:
            return str(error)
    return ""


async def smaller(folder: Path, attack: Round) -> Round:
    """The fewest conversations and frames found with which it still fails."""
    attempts = 0

    async def still(tried: Round) -> bool:
        nonlocal attempts
        attempts += 1
        return bool(await fails(folder / f"again-{attempts}", tried))

    for part in [Round([talk], []) for talk in attack.binary] + [Round([], [talk]) for talk in attack.web]:
        if attempts < ATTEMPTS_MAX and await still(part):
            attack = part
            break
    if len(attack.binary) != 1 or attack.web:
        return attack
    talk = attack.binary[0]
    size = len(talk.frames) // 2
    while size and attempts < ATTEMPTS_MAX:
        for start in range(0, len(talk.frames), size):
            tried = talk._replace(frames=talk.frames[:start] + talk.frames[start + size :])
            if attempts < ATTEMPTS_MAX and await still(Round([tried], [])):
                talk = tried
                break
        else:
            size //= 2
    return Round([talk], [])


def shown(attack: Round) -> str:
    lines = [f"binary: {len(talk.frames)} frames: {[frame[:200].hex() for frame in talk.frames[:20]]}" for talk in attack.binary]
    return "\n".join(lines + [f"WebSocket {path}: {texts[:20]}" for path, texts in attack.web])


async def again(folder: Path, seed: int, number: int, peers: int = PEERS) -> str:
    """Plays a round on a new broker, and the one before it, whose work may have been under way still. The smallest form that fails,
    as text; "" where neither fails by itself."""
    for tried in (number, number - 1):
        attack = made_round(seed, tried, peers)
        why = await fails(folder / f"round-{tried}", attack)
        if why:
            return f"round {tried}: {why}\n{shown(await smaller(folder, attack))}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Send a broker what nobody should, and see that nobody else notices.")
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--peers", type=int, default=64, help="connections at a time")
    parser.add_argument("--round", type=int, default=None, help="play only this round, and make it smaller if it fails")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.round is not None:
            failure = asyncio.run(again(Path(folder), chosen.seed, chosen.round, chosen.peers))
            print(failure or "this round does not fail by itself")
            return 1 if failure else 0
        print(f"{chosen.frames:,} frames, seed {chosen.seed}", flush=True)
        try:
            result = asyncio.run(campaign(Path(folder), chosen.frames, chosen.seed, chosen.peers, progress=True))
        except Failed as error:
            print(error, flush=True)
            print(
                asyncio.run(again(Path(folder), chosen.seed, error.round_number, chosen.peers))
                or "this round does not fail by itself"
            )
            return 1
    print(
        f"{result.frames:,} frames in {result.connections:,} connections, {result.left_open:,} open at the end: the broker lives, "
        f"{result.songs:,} songs of the canary, {result.topics_used} topics used and deleted, at most "
        f"{result.resident_bytes_max >> 20} MiB resident (seed {chosen.seed})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
