"""`make sdk-simulation`: many lives of a client from seeds; one that fails says how to see it again.

python -m tests.simulation.sdk --seeds 1000          seeds chosen at random
python -m tests.simulation.sdk --seed 7 --steps 500  one of them
"""

from __future__ import annotations

import argparse
import sys
import traceback
from random import SystemRandom

from tests.simulation.sdk.run import STEPS, live


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.sdk")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=None, help="this one only")
    parser.add_argument("--steps", type=int, default=STEPS, help="messages in one life")
    options = parser.parse_args()
    first = SystemRandom().randrange(1_000_000_000)
    seeds = range(first, first + options.seeds) if options.seed is None else [options.seed]
    failed, stored, cancelled, connections = [], 0, 0, 0
    for seed in seeds:
        try:
            life = live(seed, options.steps)
        except Exception:
            failed.append(seed)
            traceback.print_exc()
            print(f"again: python -m tests.simulation.sdk --seed {seed} --steps {options.steps}", flush=True)
            continue
        stored, cancelled, connections = stored + life.stored, cancelled + life.cancelled, connections + life.connections
    print(f"{len(seeds)} lives from seed {seeds[0]}: {len(failed)} failed {failed or ''}")
    print(f"{stored} messages stored, {cancelled} calls cancelled, {connections} connections")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
