"""Which connections are read and which pause: those that hold most pause first, and all resume in the end."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from messaging.broker.core.memory.ingress_limiter import (
    PARKED_BYTES_MAX,
    PARKED_SHARE,
    QUOTA_BYTES_MAX,
    IngressLimiter,
    PublishQuota,
)
from messaging.broker.core.memory.memory_limiter import MemoryLimiter

READ_BYTES = 256


class Peer:
    """A source that counts how often it was resumed."""

    def __init__(self, ingress_limiter: IngressLimiter, tenant: str = "acme") -> None:
        self.ingress_limiter = ingress_limiter
        self.resumed = 0
        self.quota = PublishQuota(tenant, self._resume)

    def _resume(self) -> None:
        self.resumed += 1

    def take(self, size: int) -> bool:
        return self.ingress_limiter.take(self.quota, size)

    def give(self, size: int) -> None:
        self.ingress_limiter.give(self.quota, size)

    def begin(self, size: int) -> bool:
        return self.ingress_limiter.begin(self.quota, size)

    @property
    def paused(self) -> bool:
        return self.quota.paused


def limiter_of(ingress_bytes: int) -> IngressLimiter:
    return IngressLimiter(MemoryLimiter(-(-16 * ingress_bytes // 5)).ingress)


def test_a_source_pauses_at_its_own_bound_and_goes_on_at_half_of_it() -> None:
    peer = Peer(limiter_of(100 * QUOTA_BYTES_MAX))
    assert not peer.take(QUOTA_BYTES_MAX)
    assert peer.take(1)
    assert not peer.take(1)  # said once
    peer.give(QUOTA_BYTES_MAX // 2 + 1)
    assert peer.paused
    peer.give(1)
    assert (peer.paused, peer.resumed) == (False, 1)


def test_the_source_that_holds_most_pauses_and_not_one_that_holds_little() -> None:
    ingress_limiter = limiter_of(1000)
    greedy, modest = Peer(ingress_limiter), Peer(ingress_limiter, "globex")
    assert greedy.take(600)
    assert not modest.take(100)
    assert (greedy.paused, modest.paused) == (True, False)


def test_many_sources_of_one_tenant_do_not_stop_another_tenant() -> None:
    ingress_limiter = limiter_of(10_000)
    crowd = [Peer(ingress_limiter) for _ in range(100)]
    for peer in crowd:
        if not ingress_limiter.paused:
            peer.take(100)
    assert ingress_limiter.paused == 1
    other = Peer(ingress_limiter, "globex")
    assert not other.take(1000)
    assert not other.begin(1000)


def test_a_source_that_holds_nothing_goes_on_in_turn_with_what_others_give_back() -> None:
    ingress_limiter = limiter_of(1000)
    first, second, third = Peer(ingress_limiter), Peer(ingress_limiter), Peer(ingress_limiter, "globex")
    assert first.take(900)
    assert second.take(50)
    second.give(50)  # nothing of its own will wake it now
    assert third.take(60)
    third.give(60)
    assert (second.paused, third.paused) == (
        True,
        False,
    )  # the tenant of `second` holds more than its part, that of `third` nothing
    first.give(900)
    assert not first.paused and not second.paused
    assert ingress_limiter.paused == 0


def test_a_large_frame_begins_when_it_fits_and_keeps_what_it_needs() -> None:
    ingress_limiter = limiter_of(1000)
    busy, large = Peer(ingress_limiter, "globex"), Peer(ingress_limiter)
    busy.take(700)
    assert large.begin(500)
    busy.give(200)
    assert (large.paused, large.quota.held_bytes) == (False, 500)
    assert ingress_limiter.account.used_bytes == 1000
    ingress_limiter.frame_arrived(large.quota)
    assert ingress_limiter.account.used_bytes == 500
    ingress_limiter.frame_arrived(large.quota)  # there is nothing to come
    assert ingress_limiter.account.used_bytes == 500


def test_a_peer_that_announces_much_and_leaves_gives_it_back() -> None:
    ingress_limiter = limiter_of(1000)
    liar, waiting = Peer(ingress_limiter), Peer(ingress_limiter)
    assert not liar.begin(900)
    assert waiting.begin(400)
    ingress_limiter.leave(liar.quota)
    assert (waiting.paused, waiting.quota.held_bytes, ingress_limiter.account.used_bytes) == (False, 400, 400)
    ingress_limiter.leave(waiting.quota)
    ingress_limiter.leave(waiting.quota)
    assert ingress_limiter.account.used_bytes == 0


def test_a_source_that_leaves_while_paused_is_not_resumed() -> None:
    ingress_limiter = limiter_of(1000)
    peer = Peer(ingress_limiter)
    assert peer.take(900)
    ingress_limiter.leave(peer.quota)
    peer.give(900)
    assert (peer.resumed, ingress_limiter.paused, ingress_limiter.account.used_bytes) == (0, 0, 0)


def test_messages_that_wait_for_rate_limits_pause_only_their_own_peer() -> None:
    ingress_limiter = limiter_of(PARKED_BYTES_MAX * PARKED_SHARE * 4)
    peer, other = Peer(ingress_limiter), Peer(ingress_limiter)
    assert not ingress_limiter.park(peer.quota, PARKED_BYTES_MAX)
    assert ingress_limiter.park(peer.quota, 1)
    assert not ingress_limiter.park(peer.quota, 1), "it is told once"
    assert (peer.quota.parked_too_much, other.quota.parked_too_much, ingress_limiter.parked_too_much) == (True, False, 1)
    assert not ingress_limiter.unpark(peer.quota, 2)
    assert not ingress_limiter.unpark(peer.quota, PARKED_BYTES_MAX // 2 - 1)
    assert ingress_limiter.unpark(peer.quota, 1)
    assert not ingress_limiter.unpark(peer.quota, PARKED_BYTES_MAX // 2), "it is told once"
    assert (ingress_limiter.parked_bytes, ingress_limiter.parked_too_much) == (0, 0)


def test_a_tenant_of_which_much_waits_pauses_with_the_least() -> None:
    ingress_limiter = limiter_of(8000)
    first, second, stranger = Peer(ingress_limiter), Peer(ingress_limiter), Peer(ingress_limiter, "globex")
    assert not ingress_limiter.park(first.quota, 900)
    assert ingress_limiter.park(second.quota, 200)
    assert not ingress_limiter.park(stranger.quota, 900)
    assert ingress_limiter.unpark(second.quota, 200), "it resumes when nothing of its own waits, whatever others have"
    assert ingress_limiter.park(second.quota, 200)
    assert not ingress_limiter.unpark(first.quota, 900), "which did not pause"
    assert ingress_limiter.unpark(second.quota, 1)
    assert ingress_limiter.parked_bytes == 199 + 900


def test_a_source_that_leaves_while_too_much_waits_is_forgotten() -> None:
    ingress_limiter = limiter_of(8000)
    peer = Peer(ingress_limiter)
    assert ingress_limiter.park(peer.quota, 2000)
    ingress_limiter.leave(peer.quota)
    assert ingress_limiter.parked_too_much == 0
    assert not ingress_limiter.park(peer.quota, 2000)
    assert not ingress_limiter.unpark(peer.quota, 4000)
    assert ingress_limiter.parked_bytes == 0


class Sources(RuleBasedStateMachine):
    """Peers that send only while they are read, in reads of a fixed size; the disk settles what it will."""

    def __init__(self) -> None:
        super().__init__()
        self.ingress_limiter = limiter_of(4096)
        self.peers: list[Peer] = []
        self.appended: list[tuple[Peer, int]] = []

    @rule(tenant=st.sampled_from(["acme", "globex"]))
    def arrive(self, tenant: str) -> None:
        self.peers.append(Peer(self.ingress_limiter, tenant))

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99), size=st.integers(1, READ_BYTES))
    def read(self, index: int, size: int) -> None:
        peer = self.peers[index % len(self.peers)]
        if not peer.paused and not peer.quota.begun_bytes:
            peer.take(size)
            self.appended.append((peer, size))

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99), size=st.integers(1, 3000))
    def begin(self, index: int, size: int) -> None:
        peer = self.peers[index % len(self.peers)]
        if not peer.paused and not peer.quota.begun_bytes:
            peer.begin(size)

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99))
    def come(self, index: int) -> None:
        peer = self.peers[index % len(self.peers)]
        if not peer.paused and peer.quota.begun_bytes:
            size = peer.quota.begun_bytes
            self.ingress_limiter.frame_arrived(peer.quota)
            peer.take(size)
            self.appended.append((peer, size))

    @precondition(lambda self: self.appended)
    @rule(index=st.integers(0, 99))
    def settle(self, index: int) -> None:
        peer, size = self.appended.pop(index % len(self.appended))
        peer.give(size)

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99))
    def leave(self, index: int) -> None:
        self.ingress_limiter.leave(self.peers.pop(index % len(self.peers)).quota)

    @invariant()
    def counted(self) -> None:
        begun = sum(peer.quota.begun_bytes for peer in self.peers)
        assert self.ingress_limiter.account.used_bytes == begun + sum(size for _, size in self.appended)
        assert self.ingress_limiter.paused == sum(peer.paused for peer in self.peers)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever pauses is woken by something that is under way: a frame that comes, or the disk."""
        if not self.ingress_limiter.account.used_bytes:
            assert self.ingress_limiter.paused == 0

    def teardown(self) -> None:
        while self.appended:
            peer, size = self.appended.pop()
            peer.give(size)
        while begun := [peer for peer in self.peers if peer.quota.begun_bytes]:  # each may let another begin
            for peer in begun:
                self.ingress_limiter.frame_arrived(peer.quota)
        assert self.ingress_limiter.paused == 0
        assert self.ingress_limiter.account.used_bytes == 0


TestSources = Sources.TestCase
