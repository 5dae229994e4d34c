"""Events for the audit log: clients that were refused and changes that they made to subscriptions, counted until they are written.
Pure.

Identical events are one entry with a count, so that a client that retries uses only one entry. The memory for entries is limited
and shared: a key (or, without one, an address), the callers of one tenant, and the events about one tenant each have a share, so
that nobody's flood displaces the events of others. An event without room is only counted for its action: by caller and tenant,
then by tenant, then by action. The counts are always complete.

Entries are removed when they are in the audit log, about once a minute, which also limits how fast the log grows. Refused
requests cost a client nothing, so they have little room, separate from that of changes.

`take` numbers the oldest entries and returns them, the same ones again until they are acknowledged. A numbered entry no longer
changes; an identical event after that starts another entry.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.permissions.audited import REFUSALS

REFUSED_BYTES_MAX = 256 << 10  # of refused requests: about 400 entries
DONE_BYTES_MAX = 4 << 20  # of changes of subscriptions
DONE_SHARE = 4  # and no more than a quarter of the account
CALLER_SHARE, CALLER_TENANT_SHARE, TENANT_SHARE = 16, 8, 4  # what one may have of either: a sixteenth, an eighth, a quarter
FURTHER_BYTES_MAX = 64 << 10  # of entries that count further events, by caller; and as much by tenant
FURTHER_SHARE = 16
BYTES_MAX = REFUSED_BYTES_MAX + DONE_BYTES_MAX + 2 * FURTHER_BYTES_MAX + (16 << 10)  # the last: one for each action
ENTRY_BYTES = 512  # overhead of an entry
TAKEN_MAX = 200  # entries taken at once
ROLE_LENGTH_MAX, KEY_LENGTH_MAX, RESOURCE_LENGTH_MAX, REASON_LENGTH_MAX = 600, 64, 1100, 300


class Event(NamedTuple):
    """What a client did or was refused. `tenant` and `tenant_uid` are those of an existing tenant, or empty, as is everything that
    is unknown."""

    action: str  # its name in the audit log
    role: str = ""
    key_id: str = ""
    address: str = ""
    tenant: str = ""
    tenant_uid: str = ""
    resource: str = ""
    reason: str = ""
    further: bool = False


class Entry:
    """`before` is that of the first event, `after` that of the last. `sequence` 0: not taken yet."""

    __slots__ = ("after", "before", "count", "event", "first_ms", "last_ms", "sequence", "size_bytes")

    def __init__(self, event: Event, now_ms: int, before: str) -> None:
        self.event = event
        self.count = 0
        self.first_ms = self.last_ms = now_ms
        self.before, self.after = before, ""
        self.sequence = 0
        self.size_bytes = ENTRY_BYTES + sum(len(text.encode(errors="replace")) for text in event[:-1])


class AuditEvents:
    """`account` is charged with the entries, in the name of the platform: what tenants do there leaves its events their places."""

    def __init__(self, account: MemoryAccount | None = None) -> None:
        self._charge = Charge(account, "") if account is not None else None
        self._done_bytes_max = DONE_BYTES_MAX if account is None else min(DONE_BYTES_MAX, account.limit_bytes // DONE_SHARE)
        self.recorded = 0  # events since the start
        self.further = 0  # of them, those that found no place of their own
        self.pending = 0  # of them, those that were not acknowledged
        self.bytes = 0
        self.untaken: dict[Event, Entry] = {}
        self._taken: deque[Entry] = deque()
        self.shares: Counter[tuple[str, str]] = Counter()  # bytes that are held of each share
        self.sequence = 0  # the last number that was given

    def record(self, event: Event, now_ms: int, before: str = "", after: str = "") -> None:
        """Costs the same whatever is held. Texts are cut to what the audit log stores."""
        event = event._replace(
            role=event.role[:ROLE_LENGTH_MAX],
            key_id=event.key_id[:KEY_LENGTH_MAX],
            address=event.address[:KEY_LENGTH_MAX],
            resource=event.resource[:RESOURCE_LENGTH_MAX],
            reason=event.reason[:REASON_LENGTH_MAX],
        )
        entry = self._place(event, now_ms, before)
        if entry.event.further:
            self.further += 1
        else:
            entry.after = after
        entry.count += 1
        entry.last_ms = max(entry.last_ms, now_ms)
        self.recorded += 1
        self.pending += 1

    def take(self, acknowledged_sequence: int) -> list[Entry]:
        """Forgets what is acknowledged; the next entries, oldest first, at most `TAKEN_MAX`."""
        while self._taken and self._taken[0].sequence <= acknowledged_sequence:
            self._release(self._taken.popleft())
        if not self._taken:
            for event in list(islice(self.untaken, TAKEN_MAX)):
                self.sequence += 1
                entry = self.untaken.pop(event)
                entry.sequence = self.sequence
                self._taken.append(entry)
        return list(self._taken)

    @property
    def waiting(self) -> int:
        """Entries that were not handed out yet."""
        return len(self.untaken)

    def held(self) -> list[Entry]:
        """All that is not acknowledged, oldest first."""
        return [*self._taken, *self.untaken.values()]

    def take_up(self, entries: Iterable[Entry], sequence: int) -> None:
        """What another one held, of which `sequence` was the last number; before anything is recorded. It had its places there."""
        self.sequence = sequence
        for entry in entries:
            self._hold(entry)
            self.pending += entry.count
            if entry.sequence:
                self._taken.append(entry)
            else:
                self.untaken[entry.event] = entry

    def _place(self, event: Event, now_ms: int, before: str) -> Entry:
        entry = self.untaken.get(event) or self._new(Entry(event, now_ms, before))
        for fewer in _further(event):
            if entry is not None:
                break
            entry = self.untaken.get(fewer) or self._new(Entry(fewer, now_ms, ""))
        assert entry is not None, "there is always a place for the count of an action"
        return entry

    def _new(self, entry: Entry) -> Entry | None:
        """Takes the entry in; None where its share, or everything, is full."""
        size, shares = entry.size_bytes, self._shares_of(entry.event)
        if any(self.shares[name] + size > limit for name, limit in shares):
            return None
        self._hold(entry)
        self.untaken[entry.event] = entry
        return entry

    def _hold(self, entry: Entry) -> None:
        for name, _ in self._shares_of(entry.event):
            self.shares[name] += entry.size_bytes
        self.bytes += entry.size_bytes
        if self._charge is not None:
            self._charge.change(entry.size_bytes)

    def _release(self, entry: Entry) -> None:
        self.pending -= entry.count
        self.bytes -= entry.size_bytes
        if self._charge is not None:
            self._charge.change(-entry.size_bytes)
        for name, _ in self._shares_of(entry.event):
            self.shares[name] -= entry.size_bytes
            if not self.shares[name]:
                del self.shares[name]

    def _shares_of(self, event: Event) -> tuple[tuple[tuple[str, str], int], ...]:
        return _shares(event, self._done_bytes_max)


def _shares(event: Event, done_bytes_max: int) -> tuple[tuple[tuple[str, str], int], ...]:
    """What an entry takes its place of: the name of each share, and how many bytes it has."""
    if event.further:
        if event.address or event.key_id:
            return (("further", ""), FURTHER_BYTES_MAX), (("further of", _caller(event)), FURTHER_BYTES_MAX // FURTHER_SHARE)
        return ((("further of tenants", ""), FURTHER_BYTES_MAX),) if event.tenant else ()
    pool, limit = ("refused", REFUSED_BYTES_MAX) if event.action in REFUSALS else ("done", done_bytes_max)
    shares = (
        ((pool, ""), limit),
        ((f"{pool} caller", _caller(event)), limit // CALLER_SHARE),
        ((f"{pool} callers of", event.role.rpartition("@")[2] if event.key_id else ""), limit // CALLER_TENANT_SHARE),
    )
    return (*shares, ((f"{pool} tenant", event.tenant), limit // TENANT_SHARE)) if event.tenant else shares


def _caller(event: Event) -> str:
    return f"key {event.key_id}" if event.key_id else f"address {event.address}"


def _further(event: Event) -> Iterator[Event]:
    """Under what an event without a place is counted, from the most telling to the one that is always there."""
    of_tenant = Event(event.action, tenant=event.tenant, tenant_uid=event.tenant_uid, further=True)
    if event.key_id:
        yield of_tenant._replace(role=event.role, key_id=event.key_id)
    else:
        yield of_tenant._replace(address=event.address)
    if event.tenant:
        yield of_tenant
    yield Event(event.action, further=True)
