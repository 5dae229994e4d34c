"""Pages of a namespace's topics, in which a partitioned topic counts as one.

What a page costs follows its length, not the namespace's: names that are called like partitions have an index of their own, by what
comes before their number, and so the partitions of a topic are passed over in one step, however many there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from heapq import merge
from itertools import islice

_PERSISTENT = "persistent"  # before the names of these, and after those of others
_MARK = "-partition-"
_NUMBERS = ("[0-9]", *("[1-9]" + "[0-9]" * digits for digits in range(1, 6)))  # one spelling per number: 07 is not 7
_LIKE_PARTITION = "(" + " or ".join(f"name glob '*{_MARK}{number}'" for number in _NUMBERS) + ")"
_STEM = "rtrim(name, '0123456789')"

INDEXES = f"""
create index if not exists topic_plain on topic (namespace, name) where not {_LIKE_PARTITION};
create index if not exists topic_like_partition on topic (namespace, {_STEM}, name) where {_LIKE_PARTITION};
"""

_PLAIN = f"""select name from topic indexed by topic_plain
    where namespace = ? and not {_LIKE_PARTITION} and name > ? order by name limit ?"""
_PARTITIONED = "select name, record from partitioned where namespace = ? and name > ? order by name limit ?"
_NEXT_STEM = f"""select {_STEM} from topic indexed by topic_like_partition
    where namespace = ? and {_LIKE_PARTITION} and {_STEM} > ? order by {_STEM} limit 1"""
_OF_STEM = f"""select name from topic indexed by topic_like_partition
    where namespace = ? and {_LIKE_PARTITION} and {_STEM} = ? and name > ? order by name limit ?"""


def page(db: sqlite3.Connection, namespace: str, after: str, limit: int) -> list[tuple[str, bytes | None]]:
    """(Name, record if it is partitioned) of up to `limit` topics, sorted by name, beginning after `after`."""
    plain_after = max(after, _PERSISTENT)  # topics that are not persistent may have a record, and are listed while they are loaded
    plain: list[tuple[str, bytes | None]] = [(name, None) for (name,) in db.execute(_PLAIN, (namespace, plain_after, limit))]
    partitioned: list[tuple[str, bytes | None]] = list(db.execute(_PARTITIONED, (namespace, after, limit)))
    rows = list(islice(merge(plain, partitioned, key=lambda row: row[0]), limit))
    end = rows[-1][0] if len(rows) == limit else ""
    called_alike: list[tuple[str, bytes | None]] = [
        (name, None) for name in _without_parent(db, namespace, plain_after, end, limit)
    ]
    return list(islice(merge(rows, called_alike, key=lambda row: row[0]), limit))


def _without_parent(db: sqlite3.Connection, namespace: str, after: str, end: str, limit: int) -> list[str]:
    """The first plain topics that are called like a partition of a topic that does not exist, up to `end` ("": all)."""
    names: list[str] = []
    for stem in _stems(db, namespace, after):
        if (end and stem > end) or (len(names) >= limit and stem > sorted(names)[limit - 1]):
            break  # all names of this stem and of those that follow come after it
        if db.execute("select 1 from partitioned where name = ?", (stem.removesuffix(_MARK),)).fetchone() is None:
            names += [name for (name,) in db.execute(_OF_STEM, (namespace, stem, after, limit))]
    return sorted(names)[:limit]


def _stems(db: sqlite3.Connection, namespace: str, after: str) -> Iterator[str]:
    """In order: those of which names may come after `after`."""
    at = after.find(_MARK)
    while at >= 0:
        yield after[: at + len(_MARK)]
        at = after.find(_MARK, at + 1)
    stem = after
    while row := db.execute(_NEXT_STEM, (namespace, stem)).fetchone():
        (stem,) = row
        yield stem
