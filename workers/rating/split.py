"""Handing out an amount to parts: the parts sum to the amount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K", bound=str | tuple[str, ...])


def split(amount: int, weights: Mapping[K, int]) -> dict[K, int]:
    """`amount` in proportion to `weights`, none of which is negative, in whole units: each part is rounded down, and what is left
    goes by ones to those that lost the most, of equals to the first by name (the method of largest remainders). Where all weights
    are 0 the first has everything. Empty for no weights."""
    if not weights:
        return {}
    total = sum(weights.values())
    names = sorted(weights)
    if not total:
        return {name: amount if name == names[0] else 0 for name in names}
    sign, magnitude = (1, amount) if amount >= 0 else (-1, -amount)
    parts, remainders = {}, []
    for name in names:
        parts[name], remainder = divmod(magnitude * weights[name], total)
        if remainder:
            remainders.append((-remainder, name))
    left = magnitude - sum(parts.values())
    if left:
        remainders.sort()
        for _, name in remainders[:left]:
            parts[name] += 1
    return {name: sign * part for name, part in parts.items()}
