"""Access modes of producers: the whole table, and that nobody ever shares a topic that somebody owns."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from messaging.broker.core.producers.access_modes import ANSWERS, AccessMode, Answer, Occupancy
from messaging.broker.core.producers.producer import NO_EPOCH, Producer
from messaging.broker.core.producers.producer_table import WAITING_MAX, ProducerTable
from messaging.errors import ProducerBusy, ProducerFenced
from messaging.limits.sizes import INT64_MAX
from tests.support.clients.producer_sink import ProducerEnd
from tests.support.examples import examples

SHARED, EXCLUSIVE = AccessMode.SHARED, AccessMode.EXCLUSIVE
WAITING, FENCING = AccessMode.WAIT_FOR_EXCLUSIVE, AccessMode.EXCLUSIVE_WITH_FENCING
EXPECTED = {
    # mode: what a topic answers that is free, shared, shared and awaited, owned
    SHARED: ("JOIN", "JOIN", "ProducerBusy", "ProducerBusy"),
    EXCLUSIVE: ("OWN", "ProducerFenced", "ProducerFenced", "ProducerFenced"),
    WAITING: ("OWN", "WAIT", "WAIT", "WAIT"),
    FENCING: ("OWN", "TAKE_OVER", "TAKE_OVER", "TAKE_OVER"),
}


def producer(
    name: str, access: AccessMode = SHARED, topic_epoch: int = NO_EPOCH, epoch: int = 0, sink: ProducerEnd | None = None
) -> Producer:
    return Producer(1, name, sink or ProducerEnd(), access=access, topic_epoch=topic_epoch, epoch=epoch)


def occupied(occupancy: Occupancy) -> ProducerTable:
    table = ProducerTable()
    if occupancy is Occupancy.OWNED:
        table.attach(producer("owner", EXCLUSIVE))
        table.attach(producer("waits", WAITING))
    elif occupancy is not Occupancy.FREE:
        table.attach(producer("one"))
        table.attach(producer("two"))
        if occupancy is Occupancy.AWAITED:
            table.attach(producer("waits", WAITING))
    return table


def test_the_table_has_an_answer_to_everything() -> None:
    assert {(mode, occupancy) for mode, row in ANSWERS.items() for occupancy in row} == {
        (mode, occupancy) for mode in AccessMode for occupancy in Occupancy
    }


@pytest.mark.parametrize("occupancy", Occupancy)
@pytest.mark.parametrize("mode", AccessMode)
def test_every_row_of_the_table(mode: AccessMode, occupancy: Occupancy) -> None:
    table = occupied(occupancy)
    before, waiting, epoch = list(table), table.waiting, table.topic_epoch
    expected = EXPECTED[mode][list(Occupancy).index(occupancy)]
    newcomer = producer("newcomer", mode)
    if expected.startswith("Producer"):
        with pytest.raises((ProducerBusy, ProducerFenced)) as refused:
            table.attach(newcomer)
        assert refused.type.__name__ == expected
        assert (list(table), table.waiting, table.topic_epoch) == (before, waiting, epoch)
        return
    admission = table.attach(newcomer)
    assert admission.answer is Answer[expected]
    if expected == "JOIN":
        assert list(table) == [*before, newcomer] and table.owner is None
    elif expected == "WAIT":
        assert list(table) == before and table.waiting == waiting + 1 and newcomer.topic_epoch == NO_EPOCH
    else:
        assert list(table) == [newcomer] and table.owner is newcomer and table.waiting == 0
        assert list(admission.fenced) == before and len(admission.refused) == waiting
        assert newcomer.topic_epoch == table.topic_epoch == epoch + 1


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAITING, FENCING])
def test_a_producer_replaced_while_it_was_away_stays_out_and_fences_no_other(mode: AccessMode) -> None:
    table = ProducerTable(topic_epoch=4)
    with pytest.raises(ProducerFenced):
        table.attach(producer("late", mode, topic_epoch=3))
    owner = producer("owner", EXCLUSIVE)
    table.attach(owner)
    with pytest.raises(ProducerFenced):
        table.attach(producer("late", mode, topic_epoch=4))
    assert list(table) == [owner] and table.waiting == 0 and table.topic_epoch == 5


def test_an_owner_that_connects_again_keeps_its_epoch() -> None:
    table = ProducerTable()
    first = producer("owner", EXCLUSIVE)
    table.attach(first)
    table.detach(first)
    again = producer("owner", EXCLUSIVE, topic_epoch=0)
    assert table.attach(again).answer is Answer.OWN
    assert again.topic_epoch == table.topic_epoch == 0


def test_an_epoch_that_was_never_given_out_does_not_become_that_of_the_topic() -> None:
    """The next owner's would not fit 64 bits, and its client would be disconnected when it named it."""
    table = ProducerTable(topic_epoch=4)
    owner = producer("owner", EXCLUSIVE, topic_epoch=INT64_MAX)
    table.attach(owner)
    assert owner.topic_epoch == table.topic_epoch == 5


def test_an_owner_that_connects_again_comes_before_those_that_wait() -> None:
    table, sink = ProducerTable(), ProducerEnd()
    first = producer("owner", WAITING, sink=sink)
    table.attach(first)
    table.attach(producer("waits", WAITING))
    again = producer("owner", WAITING, topic_epoch=0, epoch=1, sink=sink)
    admission = table.attach(again)
    assert admission.answer is Answer.OWN and admission.former is first
    assert table.detach(first) is None and table.owner is again and table.waiting == 1


def test_a_connection_that_is_gone_owns_nothing() -> None:
    table, sink = ProducerTable(), ProducerEnd()
    dead = producer("same", EXCLUSIVE, sink=sink)
    table.attach(dead)
    sink.connected = False
    successor = producer("same", EXCLUSIVE, topic_epoch=0)
    assert table.attach(successor).former is dead and table.owner is successor


def test_those_that_wait_come_in_order_and_may_have_the_name_of_the_owner() -> None:
    table = ProducerTable()
    owner = producer("same", EXCLUSIVE)
    table.attach(owner)
    first, second, third = (producer("same", WAITING) for _ in range(3))
    for waiter in (first, second, third):
        table.attach(waiter)
    assert table.detach(second) is None  # it left the queue
    departure = table.detach(owner)
    assert departure is not None and departure.promoted is first and first.topic_epoch == 1
    departure = table.detach(first)
    assert departure is not None and departure.promoted is third and third.topic_epoch == 2
    assert table.detach(third) is None and len(table) == 0


def test_the_last_of_those_that_share_a_topic_makes_room() -> None:
    table = occupied(Occupancy.AWAITED)
    first, second = table
    assert table.detach(first) is None
    departure = table.detach(second)
    assert departure is not None and departure.promoted is table.owner is not None


def test_a_waiting_producer_whose_epoch_is_over_is_passed_over() -> None:
    table, sink = ProducerTable(topic_epoch=2), ProducerEnd()
    owner = producer("owner", EXCLUSIVE, sink=sink)
    table.attach(owner)
    waits, last = producer("waits", WAITING, topic_epoch=3), producer("last", WAITING)
    table.attach(waits)
    table.attach(last)
    again = producer("owner", EXCLUSIVE, epoch=1, sink=sink)  # on a later try, without its epoch
    table.attach(again)
    assert again.topic_epoch == 4
    departure = table.detach(again)
    assert departure is not None and departure.promoted is last and list(departure.refused) == [waits]


def test_only_so_many_wait() -> None:
    table = ProducerTable()
    table.attach(producer("owner", EXCLUSIVE))
    for number in range(WAITING_MAX):
        table.attach(producer(f"{number}", WAITING))
    with pytest.raises(ProducerBusy):
        table.attach(producer("more", WAITING))
    assert table.waiting == WAITING_MAX


def test_clearing_promotes_nobody() -> None:
    table = occupied(Occupancy.OWNED)
    members, waiting = table.clear()
    assert [waiter.name for waiter in members] == ["owner"] and [member.name for member in waiting] == ["waits"]
    assert len(table) == 0 and table.waiting == 0 and table.topic_epoch == 0
    assert table.detach(members[0]) is None and table.detach(waiting[0]) is None


def test_only_rivals_are_asked_whether_they_are_alive() -> None:
    shared = occupied(Occupancy.SHARED)
    assert [rival.name for rival in shared.rivals("one", SHARED)] == ["one"] and shared.rivals("new", SHARED) == []
    assert len(shared.rivals("new", EXCLUSIVE)) == 2
    owned = occupied(Occupancy.OWNED)
    assert [rival.name for rival in owned.rivals("new", SHARED)] == ["owner"]
    assert owned.rivals("new", FENCING) == []


class Producers(RuleBasedStateMachine):
    """Producers join, leave, connect again, are forgotten by a crash: never two owners, and epochs only rise."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ProducerTable()
        self.open: list[Producer] = []
        self.waiting: list[Producer] = []
        self.left: list[Producer] = []
        self.epochs: list[tuple[int, Producer]] = []  # in the order in which owners got the topic

    def _owns(self, owner: Producer) -> None:
        if self.epochs:
            epoch, before = self.epochs[-1]
            assert owner.topic_epoch > epoch or (owner.topic_epoch == epoch and owner.name == before.name)
        self.epochs.append((owner.topic_epoch, owner))

    def _attach(self, member: Producer) -> None:
        before = (list(self.table), self.table.waiting, self.table.topic_epoch)
        try:
            admission = self.table.attach(member)
        except (ProducerBusy, ProducerFenced):
            assert before == (list(self.table), self.table.waiting, self.table.topic_epoch)
            return
        gone = [*admission.fenced, *admission.refused, *([admission.former] if admission.former else [])]
        self.open = [other for other in self.open if other not in gone]
        self.waiting = [other for other in self.waiting if other not in gone]
        self.left += gone
        if admission.answer is Answer.WAIT:
            self.waiting.append(member)
            return
        self.open.append(member)
        if admission.answer is not Answer.JOIN:
            self._owns(member)

    @rule(name=st.sampled_from("abcd"), mode=st.sampled_from(list(AccessMode)))
    def join(self, name: str, mode: AccessMode) -> None:
        self._attach(producer(name, mode))

    @rule(index=st.integers(0, 20), same_connection=st.booleans())
    def connect_again(self, index: int, same_connection: bool) -> None:
        known = [*self.open, *self.waiting, *self.left]
        if known:
            known_producer = known[index % len(known)]
            again = producer(known_producer.name, known_producer.access, known_producer.topic_epoch, known_producer.epoch + 1)
            if same_connection and isinstance(known_producer.sink, ProducerEnd):
                again.sink = known_producer.sink
            if known_producer in self.waiting:  # as `open_producer` does
                self._leave(known_producer)
            self._attach(again)

    @rule(index=st.integers(0, 20))
    def leave(self, index: int) -> None:
        known = [*self.open, *self.waiting]
        if known:
            self._leave(known[index % len(known)])

    def _leave(self, member: Producer) -> None:
        departure = self.table.detach(member)
        self.open = [other for other in self.open if other is not member]
        self.waiting = [other for other in self.waiting if other is not member]
        self.left.append(member)
        if departure is not None:
            self.waiting = [other for other in self.waiting if other not in departure.refused and other is not departure.promoted]
            if departure.promoted is not None:
                self.open.append(departure.promoted)
                self._owns(departure.promoted)

    @rule()
    def crash(self) -> None:
        """What is left is the stored epoch."""
        self.table = ProducerTable(self.table.topic_epoch)
        self.left += [*self.open, *self.waiting]
        self.open, self.waiting = [], []

    @invariant()
    def one_owner_and_nobody_beside_it(self) -> None:
        members = list(self.table)
        assert sorted(map(id, members)) == sorted(map(id, self.open))
        owners = [member for member in members if member.access is not SHARED]
        assert len(owners) <= 1 and (not owners or members == owners)
        assert self.table.owner is (owners[0] if owners else None)
        assert self.table.waiting == len(self.waiting)
        assert not self.waiting or members  # nobody waits for a topic that is free


Producers.TestCase.settings = settings(max_examples=examples(), stateful_step_count=40, deadline=None)
TestProducers = Producers.TestCase
