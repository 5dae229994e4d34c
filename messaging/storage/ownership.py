"""Who owns which bundle: sessions of brokers, and a row for each bundle that was ever owned.

A session is a lease by the database's clock; nothing but promptness depends on it. What makes a former owner harmless is the fence:
whoever takes a bundle over raises the epoch of its scope in the same transaction, and every change that the former owner makes from
then on is refused. See ADR 67.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias

from messaging.storage.ledger_store import Fence, StoreError

LEASE_MS = 12_000
SESSION_KEPT_MS = 24 * 3_600_000  # how long a session that ended is still told of
CHANGES_MAX = 1_000  # rows of one answer
State: TypeAlias = Literal["owned", "draining", "free"]

INSTANCE = "instance"  # among the addresses of a session: a random name that is kept beside what only one process may open
MACHINE = "machine"  # likewise: whose loopback addresses those are that it names
DRAINS = "draining"  # with any value, from when it gives its bundles away
UNTOLD = "untold"  # with any value, until it knows the tenants
SERVES = "broker_url"  # what no broker has among them before it takes traffic


class NamespaceBundle(NamedTuple):
    """A range of hashes of the topics of ``tenant/namespace``: closed below, open above, but for the last one, which is closed."""

    namespace: str
    lower: int
    upper: int

    def __str__(self) -> str:
        """Also the scope of its fence."""
        return f"{self.namespace}/{self.range_text}"

    @property
    def range_text(self) -> str:
        return f"0x{self.lower:08x}_0x{self.upper:08x}"

    def overlaps(self, other: NamespaceBundle) -> bool:
        return self.namespace == other.namespace and self.lower < other.upper and other.lower < self.upper


class BrokerSession(NamedTuple):
    """`session` rises with each start of a broker. `addresses` by kind: ``broker_url``, ``rpc_url`` and so on. `closed`: by itself,
    or another broker ended it; else, where it is not `live`, its lease ran out, and may still be renewed."""

    broker_id: str
    session: int
    addresses: dict[str, str]
    live: bool
    closed: bool = False

    @property
    def serves(self) -> bool:
        """Whether clients of its topics can be sent to it."""
        return self.live and SERVES in self.addresses

    @property
    def drains(self) -> bool:
        """Whether it gives its bundles away and takes none."""
        return DRAINS in self.addresses

    @property
    def untold(self) -> bool:
        """Whether it has just started and does not know the tenants yet: it would refuse their clients."""
        return UNTOLD in self.addresses

    @property
    def declines(self) -> bool:
        """Whether bundles are better given to others."""
        return self.drains or self.untold

    @property
    def takes(self) -> bool:
        """Whether it may be given bundles."""
        return self.serves and not self.declines


def scope_of_broker(broker_id: str) -> str:
    """The range of what a broker changes by itself: its ledgers, and the log of its cursors."""
    return f"broker/{broker_id}"


class EndedSession(NamedTuple):
    """`fence`: of the range that the broker changed by itself."""

    broker_id: str
    session: int
    fence: Fence


class OwnershipRow(NamedTuple):
    """`pinned`: only this broker may own it, since what is stored of it lies in its log. `change` rises with each change of any
    row."""

    bundle: NamespaceBundle
    broker_id: str  # "" while it is free
    session: int
    epoch: int
    state: State
    pinned: bool
    change: int

    @property
    def fence(self) -> Fence:
        return Fence(str(self.bundle), self.epoch)


class OwnershipChanges(NamedTuple):
    """`rows`: those that changed, in the order of their changes. One replaces all that it overlaps."""

    rows: list[OwnershipRow]
    sessions: list[BrokerSession]  # of all brokers, those that ended within `SESSION_KEPT_MS` included
    change: int  # what to ask from next time
    more: bool  # whether there were rows behind these


class SessionConflict(StoreError):
    """Another broker that is alive has this id."""


class SessionLost(StoreError):
    """The session was closed or replaced, or it expired: the broker owns nothing any more."""


class NotRecovered(StoreError):
    """The bundle is of a session that ended and whose cursor log nobody has recovered yet: `row` says which."""

    retryable = True

    def __init__(self, message: str, row: OwnershipRow) -> None:
        super().__init__(message)
        self.row = row


class RecoveryFailed(StoreError):
    """What a broker that is gone left cannot be recovered: nobody may serve what it owned until it can, or an operator accepts the
    loss."""

    retryable = True


class BundleRefused(StoreError):
    """The bundle, or one that overlaps it, is somebody else's. `row` says whose."""

    retryable = True

    def __init__(self, message: str, row: OwnershipRow) -> None:
        super().__init__(message)
        self.row = row


class OwnershipStore(Protocol):
    """Every call resolves when it is durable, and raises `Unavailable` where the database did not answer: a change may have been
    made then, and asking again is harmless."""

    async def open_session(self, broker_id: str, addresses: dict[str, str], *, replace: bool = False) -> int:
        """The number of a new session, which lasts `LEASE_MS` from now. `replace`: whoever asks is certain that the former process
        is gone, since it holds the lock of its log. Nor does one conflict that had the same `INSTANCE`. Raises
        `SessionConflict`."""

    async def serve(self, broker_id: str, session: int, addresses: dict[str, str]) -> None:
        """The broker takes traffic at `addresses` from now on, and has recovered the cursor logs of its earlier sessions. Raises
        `SessionLost`."""

    async def fence_session(self, broker_id: str, session: int, *, gone: bool = False) -> EndedSession:
        """Ends this session of a broker, or the one that followed, which has expired, or of which the caller saw that its process
        is `gone`, and takes over the range that is called `scope_of_broker`: that broker changes nothing any more. Raises
        `SessionConflict` if it is alive."""

    async def recovered(self, ended: EndedSession) -> None:
        """The cursor log of this session and of all before has been recovered: others may acquire what they owned. Raises
        `Fenced`."""

    async def renew_session(self, broker_id: str, session: int) -> None:
        """Lasts `LEASE_MS` from now again, also if it had expired. Raises `SessionLost`."""

    async def close_session(self, broker_id: str, session: int) -> None:
        """Others may take its bundles over at once. Idempotent."""

    async def acquire_bundle(self, bundle: NamespaceBundle, broker_id: str, session: int, *, pinned: bool = False) -> OwnershipRow:
        """Takes over a bundle that nobody alive owns, with all that overlap it; one that is the session's already is returned as it
        is. Raises `SessionLost`, `BundleRefused`, and `NotRecovered` where another broker's is not `recovered`."""

    async def drain_bundle(self, row: OwnershipRow) -> OwnershipRow:
        """Nobody is sent to it any more. This and the next three raise `Fenced` if `row` is not the newest."""

    async def hand_over_bundle(self, row: OwnershipRow, broker_id: str) -> OwnershipRow:
        """Gives it to a broker, under a new fence. Raises `SessionLost` if that has no live session, `BundleRefused` if it is
        pinned."""

    async def release_bundle(self, row: OwnershipRow) -> None:
        """Anybody may acquire it. A pinned one is no longer, so nothing of it may be left in its owner's log."""

    async def split_bundle(self, row: OwnershipRow, cuts: list[int]) -> list[OwnershipRow]:
        """Its parts, each under a fence of its own; all stay with the owner. `cuts` lie inside it."""

    async def remove_bundle(self, row: OwnershipRow) -> None:
        """Forgets a row of a namespace that is gone, which is no change that others are told of: they see it by `bundles_of`. Its
        fence is worth nothing, and its epochs go on if the name comes again. Raises `Fenced` if `row` is not the newest."""

    async def bundles_of(self, namespace: str) -> list[OwnershipRow]:
        """All rows of a namespace, in the order of their ranges."""

    async def release_bundles_of(self, ended: EndedSession, limit: int = CHANGES_MAX) -> int:
        """Up to `limit` bundles of a broker that was ended are nobody's from now on. How many it were. Raises `Fenced`, and
        `BundleRefused` for a pinned one."""

    async def forget_broker(self, ended: EndedSession) -> None:
        """Nothing says any more that there was this broker; its epochs go on if it comes again. Raises `Fenced`."""

    async def ownership_changes(self, after: int, limit: int = CHANGES_MAX) -> OwnershipChanges:
        """At most `limit` of the rows behind the change `after`; 0: from the first. A row that changes while somebody reads page by
        page comes again, behind those that were to come, so that the last page ends with what there is."""
