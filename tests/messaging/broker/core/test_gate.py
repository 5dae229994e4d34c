"""Who is read and who pauses: the greedy first, everybody again in the end."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from messaging.broker.core.accountant import Accountant
from messaging.broker.core.gate import SOURCE_BYTES_MAX, Gate, Source

READ_BYTES = 256


class Peer:
    """A source that counts how often it was resumed."""

    def __init__(self, gate: Gate, tenant: str = "acme") -> None:
        self.gate = gate
        self.resumed = 0
        self.source = Source(tenant, self._resume)

    def _resume(self) -> None:
        self.resumed += 1

    def take(self, size: int) -> bool:
        return self.gate.take(self.source, size)

    def give(self, size: int) -> None:
        self.gate.give(self.source, size)

    def begin(self, size: int) -> bool:
        return self.gate.begin(self.source, size)

    @property
    def paused(self) -> bool:
        return self.source.paused


def gate_of(ingress_bytes: int) -> Gate:
    return Gate(Accountant(2 * ingress_bytes).ingress)


def test_one_source_pauses_at_its_own_bound_and_goes_on_at_half_of_it() -> None:
    peer = Peer(gate_of(100 * SOURCE_BYTES_MAX))
    assert not peer.take(SOURCE_BYTES_MAX)
    assert peer.take(1)
    assert not peer.take(1)  # said once
    peer.give(SOURCE_BYTES_MAX // 2 + 1)
    assert peer.paused
    peer.give(1)
    assert (peer.paused, peer.resumed) == (False, 1)


def test_who_holds_most_pauses_and_not_who_holds_little() -> None:
    gate = gate_of(1000)
    greedy, modest = Peer(gate), Peer(gate, "globex")
    assert greedy.take(600)
    assert not modest.take(100)
    assert (greedy.paused, modest.paused) == (True, False)


def test_many_sources_of_one_tenant_do_not_stop_another_tenant() -> None:
    gate = gate_of(10_000)
    crowd = [Peer(gate) for _ in range(100)]
    for peer in crowd:
        if not gate.paused:
            peer.take(100)
    assert gate.paused == 1
    other = Peer(gate, "globex")
    assert not other.take(1000)
    assert not other.begin(1000)


def test_a_source_that_holds_nothing_goes_on_in_turn_with_what_others_give_back() -> None:
    gate = gate_of(1000)
    first, second, third = Peer(gate), Peer(gate), Peer(gate, "globex")
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
    assert gate.paused == 0


def test_a_large_frame_begins_when_it_fits_and_keeps_what_it_needs() -> None:
    gate = gate_of(1000)
    busy, large = Peer(gate, "globex"), Peer(gate)
    busy.take(700)
    assert large.begin(500)
    busy.give(200)
    assert (large.paused, large.source.held_bytes) == (False, 500)
    assert gate.account.used_bytes == 1000
    gate.came(large.source)
    assert gate.account.used_bytes == 500
    gate.came(large.source)  # there is nothing to come
    assert gate.account.used_bytes == 500


def test_a_peer_that_announces_much_and_leaves_gives_it_back() -> None:
    gate = gate_of(1000)
    liar, waiting = Peer(gate), Peer(gate)
    assert not liar.begin(900)
    assert waiting.begin(400)
    gate.leave(liar.source)
    assert (waiting.paused, waiting.source.held_bytes, gate.account.used_bytes) == (False, 400, 400)
    gate.leave(waiting.source)
    gate.leave(waiting.source)
    assert gate.account.used_bytes == 0


def test_who_leaves_while_paused_is_not_resumed() -> None:
    gate = gate_of(1000)
    peer = Peer(gate)
    assert peer.take(900)
    gate.leave(peer.source)
    peer.give(900)
    assert (peer.resumed, gate.paused, gate.account.used_bytes) == (0, 0, 0)


class Sources(RuleBasedStateMachine):
    """Peers that send only while they are read, in reads of a fixed size; the disk settles what it will."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = gate_of(4096)
        self.peers: list[Peer] = []
        self.appended: list[tuple[Peer, int]] = []

    @rule(tenant=st.sampled_from(["acme", "globex"]))
    def arrive(self, tenant: str) -> None:
        self.peers.append(Peer(self.gate, tenant))

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99), size=st.integers(1, READ_BYTES))
    def read(self, index: int, size: int) -> None:
        peer = self.peers[index % len(self.peers)]
        if not peer.paused and not peer.source.begun_bytes:
            peer.take(size)
            self.appended.append((peer, size))

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99), size=st.integers(1, 3000))
    def begin(self, index: int, size: int) -> None:
        peer = self.peers[index % len(self.peers)]
        if not peer.paused and not peer.source.begun_bytes:
            peer.begin(size)

    @precondition(lambda self: self.peers)
    @rule(index=st.integers(0, 99))
    def come(self, index: int) -> None:
        peer = self.peers[index % len(self.peers)]
        if not peer.paused and peer.source.begun_bytes:
            size = peer.source.begun_bytes
            self.gate.came(peer.source)
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
        self.gate.leave(self.peers.pop(index % len(self.peers)).source)

    @invariant()
    def counted(self) -> None:
        begun = sum(peer.source.begun_bytes for peer in self.peers)
        assert self.gate.account.used_bytes == begun + sum(size for _, size in self.appended)
        assert self.gate.paused == sum(peer.paused for peer in self.peers)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever pauses is woken by something that is under way: a frame that comes, or the disk."""
        if not self.gate.account.used_bytes:
            assert self.gate.paused == 0

    def teardown(self) -> None:
        while self.appended:
            peer, size = self.appended.pop()
            peer.give(size)
        while begun := [peer for peer in self.peers if peer.source.begun_bytes]:  # each may let another begin
            for peer in begun:
                self.gate.came(peer.source)
        assert self.gate.paused == 0
        assert self.gate.account.used_bytes == 0


TestSources = Sources.TestCase
