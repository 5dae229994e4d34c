"""`make simulation`: many seeds, each in its turn; a failing one says what was broken, what led to it, and how to see it again.

python -m tests.simulation --seeds 100            seeds chosen at random
python -m tests.simulation --seeds 20 --from 5    5 to 24
python -m tests.simulation --seed 7 --lines 100   one, with the end of its trace
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from random import SystemRandom

from messaging.identity import create_secrets
from messaging.settings import Settings
from tests.simulation.run import STEPS, Result, simulate
from tests.simulation.silence import silenced


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--from", type=int, dest="first", default=None, help="the first of them; chosen at random if not given")
    parser.add_argument("--seed", type=int, default=None, help="this one only")
    parser.add_argument("--steps", type=int, default=STEPS, help="operations in one run")
    parser.add_argument("--lines", type=int, default=40, help="of the trace, shown of a run that fails")
    options = parser.parse_args()
    first = SystemRandom().randrange(1_000_000_000) if options.first is None else options.first
    seeds = range(first, first + options.seeds) if options.seed is None else [options.seed]
    failed: list[int] = []
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="magnetar-simulation-") as folder, silenced():
        settings = Settings(data_dir=folder)
        create_secrets(settings)
        for done, seed in enumerate(seeds, 1):
            result = simulate(seed, settings, options.steps)
            counts.update(result.counts)
            if result.violation:
                failed.append(seed)
                print(described(result, options.steps, options.lines), flush=True)
            elif len(seeds) == 1:
                print("\n".join(list(result.trace.lines)[-options.lines :]))
            if done % 50 == 0:
                print(f"{done} seeds, {len(failed)} failed", flush=True)
    print(f"{len(seeds)} seeds from {seeds[0]}: {len(failed)} failed {failed or ''}")
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if failed else 0


def described(result: Result, steps: int, lines: int) -> str:
    """What a person needs to look into it."""
    return "\n".join(
        [
            *list(result.trace.lines)[-lines:],
            f"seed {result.seed}: {result.violation}",
            f"again: python -m tests.simulation --seed {result.seed} --steps {steps} --lines 200",
            "when it is mended: keep the seed as a named test in tests/simulation/test_found.py",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
