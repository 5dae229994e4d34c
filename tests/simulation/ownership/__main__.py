"""`make ownership`: any number of steps, 10,000 to a seed; a failure says how to see it again.

python -m tests.simulation.ownership --steps 1000000     seeds chosen at random
python -m tests.simulation.ownership --seed 7            one
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import SystemRandom

from tests.simulation.ownership.outage import sessions_lost
from tests.simulation.ownership.run import simulate

STEPS_OF_A_SEED = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.ownership")
    parser.add_argument("--steps", type=int, default=STEPS_OF_A_SEED)
    parser.add_argument("--seed", type=int, default=None, help="this one only")
    options = parser.parse_args()
    first = SystemRandom().randrange(1_000_000_000)
    seeds = range(first, first + -(-options.steps // STEPS_OF_A_SEED)) if options.seed is None else [options.seed]
    counts: Counter[str] = Counter()
    started, failed = time.monotonic(), 0
    for seed in seeds:
        result = simulate(seed, STEPS_OF_A_SEED if options.seed is None else options.steps)
        counts.update(result.counts)
        if sessions_lost(seed):
            failed += 1
            print(f"seed {seed}: an outage of the database ended a broker that is well", flush=True)
        if result.violation:
            failed += 1
            print(result.described, flush=True)
    print(f"{options.steps} steps, seeds from {seeds[0]}, {time.monotonic() - started:.0f} s, {failed} failed")
    print("  " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
