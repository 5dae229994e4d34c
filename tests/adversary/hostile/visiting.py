"""The campaign of legal extremes: many visits of one tenant at a time, and a canary of another that must not notice.

    python -m tests.adversary.hostile.visiting --visits 20000 --seed 7

Checked after every round: what `campaign.Target.check` does. The canary sings all the while, and its longest song is told. Rounds
depend on the seed and their number alone, as far as the broker's answers come in the same order.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import FEED_APPLY
from messaging.identity import issue_token
from tests.adversary.hostile.campaign import Failed, Target, target
from tests.adversary.hostile.peers import NotServed
from tests.adversary.hostile.visits import NAMESPACE, visit

VISITORS = 4  # at a time
STEPS_A_VISIT = 25
TENANT, KEY = "guest", "guest-key"


class Visited(NamedTuple):
    visits: int
    steps: Counter[str]
    refused: Counter[str]
    songs: int
    longest_song_s: float
    resident_bytes_max: int


@asynccontextmanager
async def visited(folder: Path) -> AsyncIterator[tuple[Target, str]]:
    """A broker with a canary, and the token of a guest that may do anything in a namespace of its own."""
    async with target(folder) as under:
        changes = [
            FeedChange(version=6, kind="tenant", key=TENANT, state={"admin_roles": [TENANT]}),
            FeedChange(version=7, kind="namespace", key=NAMESPACE, state={}),
            FeedChange(version=8, kind="key", key=KEY, state={"role": TENANT, "tenant": TENANT, "revoked": False}),
        ]
        under.broker.rpc.call(FEED_APPLY, FeedApply(from_version=5, to_version=8, changes=changes))
        yield under, issue_token(under.broker.settings, TENANT, KEY, int(time.time()))


async def _sing(under: Target, longest: list[float], ended: asyncio.Event) -> None:
    while not ended.is_set():
        begun = time.monotonic()
        await under.canary.sing()
        longest.append(time.monotonic() - begun)
        try:
            await asyncio.wait_for(ended.wait(), 0.02)
        except TimeoutError:
            continue


async def round_of(under: Target, token: str, seed: int, number: int, visitors: int) -> tuple[Counter[str], Counter[str], float]:
    """Steps, refusals and the canary's longest song. Raises `NotServed`."""
    ended, songs = asyncio.Event(), list[float]()
    singing = asyncio.create_task(_sing(under, songs, ended))
    seeds = [(seed * 1_000_003 + number) * 64 + index for index in range(visitors)]
    port, admin = under.broker.address[1], under.broker.rpc
    try:
        visits = await asyncio.gather(*(visit(port, token, admin, visitor_seed, STEPS_A_VISIT) for visitor_seed in seeds))
    finally:
        ended.set()
        await singing
    steps, refused = Counter[str](), Counter[str]()
    for visitor in visits:
        steps += visitor.done
        refused += visitor.refused
    return steps, refused, max(songs, default=0.0)


async def campaign(folder: Path, visits: int, seed: int, visitors: int = VISITORS, progress: bool = False) -> Visited:
    """Raises `Failed`."""
    steps, refused = Counter[str](), Counter[str]()
    longest_s, resident_max, number = 0.0, 0, 0
    async with visited(folder / "broker") as (under, token):
        while number * visitors < visits:
            try:
                of_steps, of_refused, song_s = await round_of(under, token, seed, number, visitors)
                await under.check()
            except NotServed as error:
                raise Failed(str(error), seed, number, visitors, "visiting") from None
            steps += of_steps
            refused += of_refused
            longest_s, number = max(longest_s, song_s), number + 1
            resident_max = max(resident_max, under.broker.cost().resident_bytes)
            if progress and number % 10 == 0:
                print(f"{number * visitors:,} visits, {resident_max >> 20} MiB, longest song {longest_s * 1000:.0f} ms", flush=True)
        return Visited(number * visitors, steps, refused, under.canary.songs, longest_s, resident_max)


def main() -> int:
    parser = argparse.ArgumentParser(description="Let a tenant do all that it may, as much as it may, and see that nobody notices.")
    parser.add_argument("--visits", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--peers", type=int, default=VISITORS, help="visits at a time")
    parser.add_argument("--round", type=int, default=None, help="only this round")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            if chosen.round is not None:
                asyncio.run(_once(Path(folder), chosen.seed, chosen.round, chosen.peers))
                print("this round does not fail by itself")
                return 0
            result = asyncio.run(campaign(Path(folder), chosen.visits, chosen.seed, chosen.peers, progress=True))
        except (Failed, NotServed) as error:
            print(error, flush=True)
            return 1
    print(
        f"{result.visits:,} visits, {result.steps.total():,} steps, {result.refused.total():,} refusals: the broker lives, "
        f"{result.songs:,} songs of the canary, the longest {result.longest_song_s * 1000:.0f} ms, at most "
        f"{result.resident_bytes_max >> 20} MiB resident (seed {chosen.seed})"
    )
    print(", ".join(f"{name} {count}" for name, count in result.refused.most_common(12)))
    return 0


async def _once(folder: Path, seed: int, number: int, visitors: int) -> None:
    async with visited(folder / "broker") as (under, token):
        await round_of(under, token, seed, number, visitors)
        await under.check()


if __name__ == "__main__":
    sys.exit(main())
