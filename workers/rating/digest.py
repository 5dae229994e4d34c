"""A digest of the usage of one tenant in one hour, which does not depend on the order of rows.

Of each row: the first 60 bits of the SHA-256 of its namespace, topic and every quantity that is not 0 (`meter=value`, by name),
joined by line feeds. Of an hour: the number of rows and the sum of theirs. Rows without a quantity do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

NOTHING = "0-0"


def row_digest(namespace: str, topic: str, quantities: Mapping[str, int]) -> int:
    """0 for a row without a quantity."""
    used = sorted((meter, value) for meter, value in quantities.items() if value)
    if not used:
        return 0
    text = "\n".join((namespace, topic, *(f"{meter}={value}" for meter, value in used)))
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


def hour_digest(rows: Iterable[int]) -> str:
    """Of the digests of its rows."""
    counted = [row for row in rows if row]
    return f"{len(counted)}-{sum(counted):x}"
