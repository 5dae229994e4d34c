"""`make simulate`: any number of steps for each subscription type, 10,000 to a seed; a failure says how to see it again.

python -m tests.simulation.subscriptions --steps 1000000           seeds chosen at random
python -m tests.simulation.subscriptions --type shared --seed 7    one
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import SystemRandom

from messaging.broker.core.subscription_type import SubscriptionType
from tests.simulation.subscriptions.run import simulate

STEPS_OF_A_SEED = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.subscriptions")
    parser.add_argument("--steps", type=int, default=STEPS_OF_A_SEED, help="of each type")
    parser.add_argument("--type", choices=[kind.name.lower() for kind in SubscriptionType], help="this one only")
    parser.add_argument("--seed", type=int, default=None, help="this one only")
    parser.add_argument("--from", type=int, dest="first", default=None, help="the first seed; chosen at random if not given")
    options = parser.parse_args()
    kinds = [SubscriptionType[options.type.upper()]] if options.type else list(SubscriptionType)
    first = options.first if options.first is not None else SystemRandom().randrange(1_000_000_000)
    failed = 0
    for kind in kinds:
        counts: Counter[str] = Counter()
        started, left = time.monotonic(), options.steps
        seeds = range(first, first + -(-left // STEPS_OF_A_SEED)) if options.seed is None else [options.seed]
        for seed in seeds:
            steps = min(left, STEPS_OF_A_SEED) if options.seed is None else options.steps
            left -= steps
            result = simulate(kind, seed, steps)
            counts.update(result.counts)
            if result.violation:
                failed += 1
                print(result.described, flush=True)
        print(f"{kind.name.lower()}: {options.steps} steps, seeds from {seeds[0]}, {time.monotonic() - started:.0f} s")
        print("  " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())), flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
