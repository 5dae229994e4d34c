"""What is charged for a line over all documents: a note takes slices that no rating charges or gives back again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.billing.billing_rows import APRIL, MARCH
from workers.rating.adjust import adjustments
from workers.rating.rate import MINIMUM, USAGE, Line, line_id
from workers.rating.statement import LineBalance

AMOUNTS = st.integers(0, 40)


def balance(billed: int, *notes: int) -> LineBalance:
    line_balance = LineBalance(billed)
    for amount in notes:
        line_balance.take_back(amount)
    return line_balance


def test_a_note_takes_the_top_of_a_line() -> None:
    noted = balance(10, 4)
    assert [noted.due(rated) for rated in (0, 5, 6, 8, 10, 12)] == [0, 5, 6, 6, 6, 8]
    assert [noted.absorbed(rated) for rated in (5, 8, 10)] == [4, 2, 0]


def test_a_note_after_a_correction_takes_the_top_of_what_is_left() -> None:
    corrected = LineBalance(10)
    corrected.charged -= 3
    corrected.take_back(2)
    assert [corrected.due(rated) for rated in (4, 5, 7, 10)] == [4, 5, 5, 8]


@given(AMOUNTS, st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=6))
def test_corrections_and_notes_in_any_order_agree_with_units_that_are_crossed_out(
    billed: int, steps: list[tuple[int, int]]
) -> None:
    """The reference: a line is a row of units; a note crosses out the last that are charged, usage says how many there are."""
    line_balance, crossed_out, units = LineBalance(billed), set[int](), billed
    for rated, taken in steps:
        line_balance.charged = line_balance.due(rated)
        units = rated
        charged = [unit for unit in range(units) if unit not in crossed_out]
        assert line_balance.charged == len(charged)
        taken = min(taken, len(charged))
        if taken:
            line_balance.take_back(taken)
            crossed_out.update(charged[len(charged) - taken :])
        assert line_balance.due(units) == line_balance.charged == len(charged) - taken
        assert line_balance.absorbed(units) == sum(unit >= units for unit in crossed_out)


def test_the_line_up_to_the_minimum_does_not_charge_what_a_note_took_back() -> None:
    def line(kind: str, amount: int) -> Line:
        return Line(line_id(kind if kind == MINIMUM else "bytes_in", MARCH), kind, kind, MARCH, APRIL, amount)

    balances = {line(USAGE, 0).id: balance(6000, 6000), line(MINIMUM, 0).id: LineBalance(4000)}
    assert adjustments("2026-000001", (MARCH, APRIL), balances, [line(USAGE, 5000), line(MINIMUM, 5000)], ["run"]) == []
    more = adjustments("2026-000001", (MARCH, APRIL), balances, [line(USAGE, 7000), line(MINIMUM, 3000)], ["run"], forgiven=-1)
    assert [line.amount for line in more] == [1000, -1000]
