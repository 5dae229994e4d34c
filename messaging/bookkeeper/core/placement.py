"""Which bookies get a ledger: of different racks first, by chance in proportion to free space, failed ones last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from messaging.bookkeeper.errors import NotEnoughBookies

DEFAULT_RACK = "/default-rack"
_WEIGHT_MULTIPLE_MAX = 3.0  # of the mean, so that an empty bookie does not get everything that is new


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bookie that takes writes. `free_bytes` None: unknown. `failed`: it failed a short while ago."""

    bookie: str
    rack: str = DEFAULT_RACK
    free_bytes: int | None = None
    failed: bool = False


class Placement:
    """`chance` returns numbers from 0 to below 1."""

    def __init__(self, chance: Callable[[], float], require_racks: int = 1) -> None:
        """With `require_racks` above 1, each write set has to be in so many racks; otherwise racks are only preferred."""
        self._chance = chance
        self._require_racks = require_racks

    def ensemble(self, candidates: Iterable[Candidate], size: int, write_quorum: int) -> tuple[str, ...]:
        """Raises `NotEnoughBookies`."""
        available = list(candidates)
        chosen = self._fill([None] * size, available, frozenset(), write_quorum)
        ensemble = [bookie for bookie in chosen if bookie is not None]
        if len(ensemble) < size:
            names = ", ".join(sorted(candidate.bookie for candidate in available)) or "none"
            raise NotEnoughBookies(f"a ledger needs {size} bookies that take writes; there are {len(available)} ({names})")
        racks = {candidate.bookie: candidate.rack for candidate in available}
        if not self._spread(ensemble, racks, write_quorum):
            raise NotEnoughBookies(
                f"each entry has to be in {min(self._require_racks, write_quorum)} racks, and bookies that take writes are in: "
                f"{', '.join(sorted(set(racks.values())))}"
            )
        return tuple(ensemble)

    def replacements(
        self, candidates: Iterable[Candidate], ensemble: tuple[str, ...], slots: Set[int], avoid: Set[str], write_quorum: int
    ) -> dict[int, str]:
        """Slot -> bookie for as many of `slots` as there are bookies; none of `ensemble` or `avoid`."""
        available = list(candidates)
        kept = [None if slot in slots else bookie for slot, bookie in enumerate(ensemble)]
        chosen = self._fill(kept, available, frozenset(ensemble) | avoid, write_quorum)
        racks = {candidate.bookie: candidate.rack for candidate in available}
        if self._require_racks > 1 and not self._spread([bookie for bookie in chosen if bookie], racks, write_quorum):
            return {}
        return {slot: bookie for slot in slots if (bookie := chosen[slot]) is not None}

    def _fill(self, slots: list[str | None], available: list[Candidate], avoid: Set[str], write_quorum: int) -> list[str | None]:
        racks = {candidate.bookie: candidate.rack for candidate in available}
        chosen = list(slots)
        for slot, bookie in enumerate(slots):
            if bookie is not None:
                continue
            left = [candidate for candidate in available if candidate.bookie not in avoid and candidate.bookie not in chosen]
            if not left:
                break
            # Slots that share a write set with this one are less than a write quorum away, around the end as well.
            near = {(slot + distance) % len(slots) for distance in range(1 - write_quorum, write_quorum)} - {slot}
            used = [racks.get(other, DEFAULT_RACK) for index in near if (other := chosen[index]) is not None]
            best = min((candidate.failed, used.count(candidate.rack)) for candidate in left)
            equals = [candidate for candidate in left if (candidate.failed, used.count(candidate.rack)) == best]
            chosen[slot] = self._weighted(equals).bookie
        return chosen

    def _weighted(self, candidates: list[Candidate]) -> Candidate:
        known = [candidate.free_bytes for candidate in candidates if candidate.free_bytes is not None]
        mean = sum(known) / len(known) if known else 1.0
        weights = [min(mean if c.free_bytes is None else float(c.free_bytes), _WEIGHT_MULTIPLE_MAX * mean) for c in candidates]
        if not any(weights):
            weights = [1.0] * len(candidates)
        point = self._chance() * sum(weights)
        for candidate, weight in zip(candidates, weights, strict=True):
            if point < weight:
                return candidate
            point -= weight
        return candidates[-1]

    def _spread(self, ensemble: list[str], racks: dict[str, str], write_quorum: int) -> bool:
        """Whether each write set is in as many racks as it has to be. A slot without a bookie, of a change, counts for none."""
        size = len(ensemble)
        needed = min(self._require_racks, write_quorum)
        for first in range(size):
            write_set = [ensemble[(first + position) % size] for position in range(min(write_quorum, size))]
            if len({racks.get(bookie, DEFAULT_RACK) for bookie in write_set}) < needed:
                return False
        return True
