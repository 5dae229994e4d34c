"""Every entry point of the event loop at 1,000, 10,000 and 100,000: `make growth`.

python -m tests.growth [SIZE ...]
"""

from __future__ import annotations

import sys

from tests.growth.entry_points import ENTRY_POINTS
from tests.growth.measure import measured


def main(sizes: list[int]) -> int:
    failed = 0
    for entry_point in ENTRY_POINTS:
        steps = measured(entry_point, sizes)
        failed += steps.grows
        print(steps.row, flush=True)
    print(f"{failed} of {len(ENTRY_POINTS)} entry points grow faster than they may")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000]))
