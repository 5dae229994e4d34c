"""How much is done in one turn, and for whom: counted in units, never in time."""

from __future__ import annotations

from messaging.broker.core.turns.command_costs import COSTS, cost_of
from messaging.broker.core.turns.turn_budget import CROWDED_SHARE, NEWCOMERS_SHARE, QUIET_TURNS, TurnBudget, TurnUsage
from messaging.permissions.table import BINARY
from messaging.protocol import pulsar_pb2 as pb


def served(turns: TurnBudget[str], work: dict[str, int], tenants: dict[str, str]) -> list[str]:
    """One turn of those who wait, each of whom takes its whole slice while it has work; who had a turn, in order."""
    turns.begin()
    order, again = [], []
    while (name := turns.following()) is not None:
        cost = min(work[name], turns.allowance_of_waiting(used[name]))
        turns.spend(used[name], cost)
        work[name] -= cost
        order.append(name)
        if work[name]:
            again.append(name)
    for name in again:
        turns.wait(tenants[name], name)
    return order


used: dict[str, TurnUsage] = {}


def world(work: dict[str, int], tenants: dict[str, str]) -> TurnBudget[str]:
    turns: TurnBudget[str] = TurnBudget(turn_cost=100, slice_cost=10)
    used.clear()
    for name in work:
        used[name] = TurnUsage()
        turns.wait(tenants[name], name)
    return turns


def test_a_turn_is_bounded_however_many_wait() -> None:
    work = {f"c{number}": 1000 for number in range(1000)}
    turns = world(work, dict.fromkeys(work, "acme"))
    for _ in range(5):
        before = sum(work.values())
        served(turns, work, dict.fromkeys(work, "acme"))
        assert 0 < before - sum(work.values()) <= 100
        assert turns.left >= 100 // NEWCOMERS_SHARE - 10, "something is left for those who do not wait yet"


def test_connections_go_on_in_the_order_in_which_they_waited() -> None:
    work = {f"c{number}": 20 for number in range(20)}
    tenants = dict.fromkeys(work, "acme")
    turns = world(work, tenants)
    order = [name for _ in range(6) for name in served(turns, work, tenants)]
    assert order[:20] == list(tenants), "each once before any comes again"
    assert sum(work.values()) == 0


def test_a_tenant_with_one_connection_waits_for_one_slice_of_each_other_tenant() -> None:
    work = {f"crowd{number}": 1000 for number in range(500)} | {"alone": 10}
    tenants = {name: "acme" if name != "alone" else "globex" for name in work}
    turns = world(work, tenants)
    assert served(turns, work, tenants)[1] == "alone"


def test_a_connection_gets_a_single_slice_a_turn_however_often_it_is_read() -> None:
    turns: TurnBudget[str] = TurnBudget(100, 10)
    mine, other = TurnUsage(), TurnUsage()
    turns.spend(mine, turns.allowance(mine))
    assert turns.allowance(mine) == 0
    assert turns.allowance(other) == 10
    turns.begin()
    assert turns.allowance(mine) == 10


def test_indivisible_work_is_paid_with_the_next_slices() -> None:
    turns: TurnBudget[str] = TurnBudget(100, 10)
    mine = TurnUsage()
    turns.allowance(mine)
    turns.spend(mine, 35)
    waited = 0
    while turns.allowance(mine) <= 0:
        turns.begin()
        waited += 1
    assert (waited, turns.allowance(mine)) == (3, 5)


def test_little_things_need_no_turn_of_their_own() -> None:
    turns: TurnBudget[str] = TurnBudget(100, 10)
    assert [turns.spend(TurnUsage(), 1) for _ in range(6)] == [False] * 5 + [True]


def test_when_the_turn_is_used_up_newcomers_wait_too() -> None:
    turns: TurnBudget[str] = TurnBudget(100, 10)
    for _ in range(10):
        turns.spend(TurnUsage(), 10)
    assert turns.allowance(TurnUsage()) <= 0


def test_every_command_that_a_client_sends_has_a_cost() -> None:
    assert {pb.Command.Type.Name(kind) for kind in COSTS} == set(BINARY)
    assert min(COSTS.values()) >= 1
    assert cost_of(pb.Command.SUBSCRIBE, 1 << 20) > cost_of(pb.Command.SUBSCRIBE, 100)


def test_those_who_wait_get_a_part_of_one_slice_in_all_while_others_come() -> None:
    """They got three quarters of each turn, and whoever had one request after the other was served once in that time."""
    work = {f"c{number}": 1000 for number in range(8)}
    tenants = dict.fromkeys(work, "acme")
    turns: TurnBudget[str] = TurnBudget(turn_cost=1000, slice_cost=10 * CROWDED_SHARE)
    used.update({name: TurnUsage() for name in work})
    for name in work:
        turns.wait(tenants[name], name)

    def spent() -> int:
        before = sum(work.values())
        served(turns, work, tenants)
        return before - sum(work.values())

    assert spent() == 8 * 10 * CROWDED_SHARE, "nobody else comes: a slice each"
    turns.spend(TurnUsage(), 1)
    for _ in range(QUIET_TURNS):
        assert spent() == 10, "somebody came, in this turn or a few before"
    assert spent() > 100, "and does not come any more"


def test_waiting_connections_go_on_however_many_come() -> None:
    work = {"one": 100}
    turns = world(work, {"one": "acme"})
    for _ in range(200):
        served(turns, work, {"one": "acme"})
        turns.spend(TurnUsage(), 50)
        if not work["one"]:
            break
    assert not work["one"]


def test_a_list_of_ids_costs_by_the_id() -> None:
    """500 acknowledgements in one command counted as 150, and took as long as 1,200."""
    for kind in (pb.Command.ACK, pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES):
        assert cost_of(kind, 500 * 7) > 1000
        assert cost_of(kind, 24) < 100
