"""How many examples Hypothesis tries: two fifths of what a property is worth in every run of the tests, ten times as many as it is
worth with `make properties`.
"""

from __future__ import annotations

import os

SHARE = float(os.environ.get("EXAMPLES_SHARE", "0.4"))


def examples(worth: int = 100) -> int:
    """Of a property that is well tried by `worth` of them."""
    return max(1, round(worth * SHARE))
