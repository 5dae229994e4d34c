"""Rate limits of messages and bytes at several levels: how much may be sent now, and who waits for which level. Pure.

A `LevelLimiter` is one level: a broker, a tenant, a topic, a subscription. A `Throttle` is one sender, the publishers of a topic or
a subscription, with all the levels that apply to it; the strictest decides. Amounts are taken after they were sent, and one
message may take more than is left: the bucket is then in debt, and everybody waits until it is paid. So what is sent over a longer
time is exact, whatever the sizes of batches.

A level shared by several senders is fair to them (`service_order.py`): in each turn those that wait are granted equal parts, and a
sender that has not waited gets nothing before them. A sender that cannot wait, because it drops what it may not send, has a share
of its own (`fair_shares.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from messaging.broker.core.limits.fair_shares import BURST_S, FairShares
from messaging.broker.core.limits.rate_levels import (
    NO_LIMIT,
    NO_WAITS,
    NOTHING_ALLOWED,
    UNLIMITED,
    Allowance,
    RateLevel,
    RateLimit,
    Waits,
)
from messaging.broker.core.limits.service_order import ServiceOrder
from messaging.broker.core.limits.tenant_debts import TenantDebts
from messaging.token_bucket import TokenBucket

__all__ = [
    "NOTHING_ALLOWED",
    "NO_LIMIT",
    "NO_WAITS",
    "UNLIMITED",
    "Allowance",
    "LevelLimiter",
    "RateLevel",
    "RateLimit",
    "Throttle",
    "Waits",
]

TICK_S = 0.01  # waiting senders are looked at no more often
SENDERS_A_TURN = 256
DEBT_S = 0.02  # how far senders that cannot wait may go into debt where others take all that comes


def _burst(rate: float) -> float:
    return max(1.0, rate * BURST_S)


def _set_rate(bucket: TokenBucket, rate: float, now_s: float) -> None:
    bucket.change(rate, _burst(rate), now_s)


def _changed(bucket: TokenBucket | None, rate: float, now_s: float) -> TokenBucket | None:
    """The bucket of a new rate, in which what was sent before counts; None: there is no limit."""
    if not rate:
        return None
    if bucket is None:
        return TokenBucket(rate, _burst(rate), now_s)
    _set_rate(bucket, rate, now_s)
    return bucket


class LevelLimiter:
    """The limit at one level. `policy`: the policy or setting that sets it. `added`, if given, is a rate that is allowed beside the
    limit, in messages and in bytes: for limits that are relative to what comes in."""

    __slots__ = (
        "__weakref__",
        "_debts",
        "_granted",
        "_messages",
        "_now_s",
        "_shares",
        "_size_bytes",
        "_waiting",
        "added",
        "level",
        "limit",
        "policy",
        "taken_s",
    )

    def __init__(
        self,
        level: RateLevel,
        policy: str,
        limit: RateLimit,
        now_s: float,
        added: Callable[[], tuple[float, float]] | None = None,
    ) -> None:
        self.level = level
        self.policy = policy
        self.limit = NO_LIMIT
        self.added = added
        self._messages: TokenBucket | None = None
        self._size_bytes: TokenBucket | None = None
        self._waiting: ServiceOrder[Throttle] = ServiceOrder()
        self._granted: dict[Throttle, Allowance] = {}  # what is left of the parts of those whose turn has come
        self._shares: FairShares[Throttle] | None = None  # of those that drop; None: there are none
        self._debts = TenantDebts() if level is RateLevel.BROKER else None  # None: of one tenant, for whose own senders it waits
        self._now_s = now_s
        self.taken_s = 0.0  # how long the limit allows to send what was sent, in all
        self.change(limit, now_s)

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def change(self, limit: RateLimit, now_s: float) -> None:
        """What was sent before counts. The caller gives those that wait a turn."""
        self.limit = limit
        self._messages = _changed(self._messages, limit.messages, now_s)
        self._size_bytes = _changed(self._size_bytes, limit.size_bytes, now_s)

    def _tokens(self, now_s: float) -> Allowance:
        self._now_s = max(now_s, self._now_s)
        messages, size_bytes = self._messages, self._size_bytes
        if self.added is not None:
            more_messages, more_bytes = self.added()
            if messages is not None:
                _set_rate(messages, self.limit.messages + more_messages, now_s)
            if size_bytes is not None:
                _set_rate(size_bytes, self.limit.size_bytes + more_bytes, now_s)
        return Allowance(
            UNLIMITED if messages is None else messages.tokens(now_s),
            UNLIMITED if size_bytes is None else size_bytes.tokens(now_s),
        )

    def allowance(self, sender: Throttle, now_s: float) -> Allowance:
        """Nothing for a sender that has to wait for its turn, or whose tenant is in debt."""
        if self._debts and self._owes(sender.tenant, now_s):
            return NOTHING_ALLOWED
        if sender.drops:
            return self._share(sender, now_s)
        part = self._granted.get(sender)
        if part is not None:
            return self._tokens(now_s).least(part)
        return NOTHING_ALLOWED if self._waiting else self._tokens(now_s)

    def _share(self, sender: Throttle, now_s: float) -> Allowance:
        """For a sender that drops: its share, and what nobody else takes."""
        if self._shares is None:
            self._shares = FairShares()
        credit_s = self._shares.credit_s(sender.tenant, sender, now_s, self._waiting)
        tokens = self._tokens(now_s)
        if credit_s is None:
            return tokens
        messages_rate = UNLIMITED if self._messages is None else self._messages.rate
        bytes_rate = UNLIMITED if self._size_bytes is None else self._size_bytes.rate
        room_s = min(
            UNLIMITED if self._messages is None else tokens.messages / messages_rate,
            UNLIMITED if self._size_bytes is None else tokens.size_bytes / bytes_rate,
        )
        allowed_s = max(room_s - BURST_S / 2, min(credit_s, room_s + DEBT_S))
        return Allowance(allowed_s * messages_rate, allowed_s * bytes_rate) if allowed_s > 0 else NOTHING_ALLOWED

    def _owes(self, tenant: str, now_s: float) -> bool:
        assert self._debts is not None
        self._tokens(now_s)
        self._debts.pay_with_spilled(self._messages, self._size_bytes)
        return tenant in self._debts

    def take(self, sender: Throttle, messages: float, size_bytes: float) -> None:
        if self._debts is not None:
            amount = messages, size_bytes
            messages, size_bytes = self._debts.charged(sender.tenant, amount, self._messages, self._size_bytes, self._now_s)
        used_s = 0.0  # the time for which the limit allows that much
        if self._messages is not None:
            used_s = self._messages.spend(messages)
        if self._size_bytes is not None:
            used_s = max(used_s, self._size_bytes.spend(size_bytes))
        self.taken_s += used_s
        self._waiting.served(sender.tenant, sender, used_s)
        if self._shares is not None:
            self._shares.took(sender, used_s)
        part = self._granted.get(sender)
        if part is not None:
            left = Allowance(part.messages - messages, part.size_bytes - size_bytes)
            if left:
                self._granted[sender] = left
            else:
                del self._granted[sender]

    def wait(self, sender: Throttle) -> None:
        self._granted.pop(sender, None)
        self._waiting.push(sender.tenant, sender)

    def wait_no_more(self, sender: Throttle) -> None:
        self._granted.pop(sender, None)
        self._waiting.discard(sender.tenant, sender)

    def leave(self, sender: Throttle) -> None:
        """It sends nothing more under this limit. Idempotent."""
        self._granted.pop(sender, None)
        self._waiting.forget(sender.tenant, sender)
        if self._shares is not None:
            self._shares.forget(sender)

    def turn(self, now_s: float) -> Iterator[Throttle]:
        """The senders that may go on now, each with its part. The caller lets each go on before it asks for the next."""
        count, tokens, kept = len(self._waiting), self._tokens(now_s), 0
        part = Allowance(tokens.messages / max(1, count), tokens.size_bytes / max(1, count))
        for _ in range(min(count, SENDERS_A_TURN)):
            left = self._tokens(now_s)
            sender = self._waiting.pop() if left.messages > kept and left.size_bytes > kept else None
            if sender is None:
                break
            if self._debts and self._owes(sender.tenant, now_s):
                self._pay(sender, part)
                continue
            self._granted[sender] = part
            yield sender
            if self._granted.get(sender) is part:  # what it is to send is being read: it finds something left
                kept += 1
        if not self._waiting:
            self._waiting.reset()

    def _pay(self, sender: Throttle, part: Allowance) -> None:
        """Its tenant's debt, instead of sending; it waits on."""
        assert self._debts is not None
        messages, size_bytes = self._debts.pay(sender.tenant, part)
        used_s = max(
            0.0 if self._messages is None else self._messages.spend(messages),
            0.0 if self._size_bytes is None else self._size_bytes.spend(size_bytes),
        )
        self._waiting.push(sender.tenant, sender)
        self._waiting.served(sender.tenant, sender, used_s)

    def short_of_bytes(self, now_s: float) -> bool:
        """Whether it is the bytes, not the messages, of which there are too many."""
        return (self._size_bytes is not None and self._size_bytes.wait(now_s) > 0) or self._messages is None

    def wait_s(self, now_s: float) -> float:
        """Until those that wait are worth looking at."""
        self._tokens(now_s)
        return max(TICK_S, *(bucket.wait(now_s) for bucket in (self._messages, self._size_bytes) if bucket is not None), 0.0)


class Throttle:
    """A sender: what it may send is what each of its levels allows. Where that is nothing, `begin_wait` is called with the level
    for which it waits, and `go_on` when its turn has come there. One that `drops` does not wait: it asks again when it has
    something else to send."""

    __slots__ = ("_begin_wait", "_go_on", "blocked_by", "drops", "levels", "tenant", "waits")

    def __init__(
        self,
        tenant: str,
        levels: Sequence[LevelLimiter],
        go_on: Callable[[], None],
        begin_wait: Callable[[LevelLimiter], None],
        *,
        drops: bool = False,
    ) -> None:
        self.tenant = tenant
        self.levels = levels
        self.blocked_by: LevelLimiter | None = None
        self.waits: Counter[tuple[RateLevel, bool]] = Counter()
        self._go_on = go_on
        self._begin_wait = begin_wait
        self.drops = drops

    def allowance(self, now_s: float) -> Allowance:
        """How much it may send now."""
        allowed = Allowance()
        for level in self.levels:
            allowed = allowed.least(level.allowance(self, now_s))
            if not allowed:
                self._wait(level, now_s)
                return NOTHING_ALLOWED
        if self.drops:
            self.blocked_by = None
        return allowed

    def _wait(self, level: LevelLimiter, now_s: float) -> None:
        if self.blocked_by is level:
            return
        if self.blocked_by is not None:
            self.blocked_by.wait_no_more(self)
        self.blocked_by = level
        self.waits[level.level, level.short_of_bytes(now_s)] += 1
        if not self.drops:
            level.wait(self)
            self._begin_wait(level)

    def take(self, messages: int, size_bytes: int) -> None:
        """So much was sent."""
        for level in self.levels:
            level.take(self, messages, size_bytes)

    def granted(self) -> None:
        """Its turn has come at the level for which it waited."""
        self.blocked_by = None
        self._go_on()

    def follow(self, levels: Sequence[LevelLimiter]) -> None:
        """Other limits apply to it. The caller lets it go on."""
        for level in self.levels:
            level.leave(self)
        self.blocked_by = None
        self.levels = levels

    def close(self) -> None:
        """It sends nothing more. Idempotent."""
        self.follow(())
