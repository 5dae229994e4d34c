"""Whose part of an hour's usage it was, by subscription and key: a bounded number of rows for each topic.

These rows say again what the topic's meters say, divided: nothing is billed by them. Of very many parts of one topic the smaller
ones are one row, without subscription and key, which says how many they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.checksum import DETAIL_KEY, DETAIL_OF, DETAIL_SUMS
from spark_jobs.rows import ATTRIBUTES, COUNTED

PARTS_OF_TOPIC_MAX = 50
_TOPIC = DETAIL_KEY.index("subscription")  # the parts of one topic agree in what is before
_VALUE_MAX = 2**63 - 1
_SECONDS = frozenset(name for name in DETAIL_SUMS if name.endswith("_seconds"))


def detail_rows(amounts: Mapping[tuple[str, ...], int], hour_ms: int) -> list[tuple[Any, ...]]:
    """In the order of `checksum.DETAIL_COLUMNS`, by topic, subscription and key."""
    topics: dict[tuple[str, ...], dict[tuple[str, str], list[int]]] = {}
    columns = {name: place for place, name in enumerate(DETAIL_SUMS)}
    for values, amount in amounts.items():
        of = dict(zip(ATTRIBUTES, values, strict=True))
        column = DETAIL_OF.get(of["meter"])
        if column is None:
            continue
        parts = topics.setdefault(tuple(of[name] for name in DETAIL_KEY[:_TOPIC]), {})
        sums = parts.setdefault((of["subscription"], of["key"]), [0] * len(columns))
        sums[columns[column]] += amount if of["meter"] in COUNTED else amount // 1000
    rows: list[tuple[Any, ...]] = []
    for topic, parts in sorted(topics.items()):
        for (subscription, key), (others, sums) in sorted(_bounded(parts).items()):
            if any(sums):
                rows.append((hour_ms, *topic, subscription, key, others, *(min(amount, _VALUE_MAX) for amount in sums)))
    return rows


def _bounded(parts: Mapping[tuple[str, str], list[int]]) -> dict[tuple[str, str], tuple[int, list[int]]]:
    """With how many others each stands for."""
    ranked = sorted(parts, key=lambda part: (-_size(parts[part]), part))
    bounded = {part: (0, list(parts[part])) for part in ranked[:PARTS_OF_TOPIC_MAX]}
    for part in ranked[PARTS_OF_TOPIC_MAX:]:
        others, sums = bounded.get(("", ""), (0, [0] * len(DETAIL_SUMS)))
        bounded["", ""] = (others + 1, [amount + more for amount, more in zip(sums, parts[part], strict=True)])
    return bounded


def _size(sums: list[int]) -> int:
    """To compare parts by; a second of an entry counts for little beside a message."""
    return sum(value // 3600 if name in _SECONDS else value for name, value in zip(DETAIL_SUMS, sums, strict=True))
