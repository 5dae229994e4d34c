"""`make bookkeeper`: any number of steps, each seed the life of one ledger; a failure says how to see it again.

python -m tests.simulation.bookkeeper --steps 1000000     seeds chosen at random
python -m tests.simulation.bookkeeper --seed 7            one
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import SystemRandom

from tests.simulation.bookkeeper.run import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.bookkeeper")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="this one only")
    options = parser.parse_args()
    seed = SystemRandom().randrange(1_000_000_000) if options.seed is None else options.seed
    first, counts, steps, failed, started = seed, Counter[str](), 0, 0, time.monotonic()
    while steps < options.steps:
        result = simulate(seed)
        counts.update(result.counts)
        steps += result.steps
        if result.violation:
            failed += 1
            print(result.described, flush=True)
        seed += 1
        if options.seed is not None:
            break
    print(f"{steps} steps, {seed - first} seeds from {first}, {time.monotonic() - started:.0f} s, {failed} failed")
    print("  " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
