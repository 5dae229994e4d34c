"""History pages: a chart is true of what is known, and the address has the span."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from admin_ui.history.charts import MESSAGES, OF_TOPICS, bands_of, charts_of, path_of, round_above, written
from messaging.history.cells import Source, cells_of
from messaging.history.points import HOUR_MS, MINUTE_MS, Point, values_of
from messaging.times import time_text
from tenants.history.figures import HistoryFigures, figures_of
from tenants.models import Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.support.told_history import minutes, tell

TOPIC = "persistent://acme/orders/t"
PAGE = f"{NAMESPACE}/topics/t/history"


@pytest.fixture
def begin_ms(world: Any) -> int:
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    points = minutes(uid, "acme/orders", TOPIC, "", begin_ms, 30)
    points += minutes(uid, "acme/orders", TOPIC, "s", begin_ms, 30)
    points += minutes(uid, "acme/orders", TOPIC + "2", "", begin_ms, 60, rate=5, waiting=False)
    points += minutes(uid, "acme/orders", TOPIC, "", begin_ms + 40 * MINUTE_MS, 20, rate=20)
    tell(points, [(begin_ms, begin_ms + 30 * MINUTE_MS), (begin_ms + 40 * MINUTE_MS, begin_ms + 60 * MINUTE_MS)], 1)
    return begin_ms


def bounds(begin_ms: int) -> dict[str, str]:
    return {"from": time_text(begin_ms), "until": time_text(begin_ms + HOUR_MS)}


def test_a_page_shows_the_span_of_its_address_with_gaps(browse: Browse, begin_ms: int) -> None:
    page = text(browse("owner"), PAGE, **bounds(begin_ms))
    assert "83 % of it is known" in page and "in steps of 1 min" in page
    assert "42,000" in page  # messages in
    messages = page.partition('data-chart="messages"')[2].partition("</section>")[0]
    assert messages.count('class="unknown"') == 1 and 'x="500.0"' in messages and 'width="166.7"' in messages
    (mean_in, *_) = re.findall(r'class="line-1" d="([^"]+)"', messages.partition("history-plot")[2])
    assert mean_in.count("M") == 2  # broken where nothing is known
    assert "<strong>Held back by rate limits, part of the time.</strong> Rate limits held nothing back." in page


def test_places_in_a_chart_are_no_figures_of_a_language(browse: Browse, begin_ms: int) -> None:
    page = browse("owner").get(PAGE, bounds(begin_ms), headers={"Accept-Language": "de"}).content.decode()
    assert 'class="unknown"' in page and 'x="500.0"' in page, "a browser draws nothing at 500,0"
    ticks = page.partition('class="history-ticks"')[2].partition("</svg>")[0]
    assert re.findall(r'<line x1="([^"]+)%"', ticks) == ["0.0", "16.67", "33.33", "50.0", "66.67", "83.33", "100.0"]
    assert all(re.fullmatch(r"\d\d:\d0|\d+\. \w+\.?", shown) for shown in re.findall(r"<text[^>]*>([^<]+)", ticks))


def test_a_table_has_the_same_figures(browse: Browse, begin_ms: int) -> None:
    page = text(browse("owner"), PAGE, table="1", **bounds(begin_ms))
    rows = page.partition("Step by step")[2].split("<tr>")[2:]
    assert len(rows) == 60 and "history-data" not in page
    assert ">10/s<" in rows[0] and ">100 %<" in rows[0]
    assert ">0 %<" in rows[35] and rows[35].count(">–<") == len(re.findall("<td", rows[35])) - 1


def test_spans_are_compared_with_another_time_and_another_topic(browse: Browse, begin_ms: int) -> None:
    owner = browse("owner")
    page = text(owner, PAGE, compare="topic", other="t2", **bounds(begin_ms))
    assert "line-other" in page and ">18,000<" in page and ">42,000<" in page
    page = text(owner, PAGE, compare="day", **bounds(begin_ms))
    totals = page.partition("totals-title")[2].partition("</table>")[0]
    assert "the day before" in totals and ">–<" in totals  # of which nothing is known
    page = text(owner, PAGE, compare="topic", other="persistent://other/things/t", **bounds(begin_ms))
    assert "Only topics of acme/orders can be compared here." in page


@pytest.mark.parametrize("table", ["", "1"])
def test_sums_of_an_earlier_span_are_those_of_its_coarser_steps(browse: Browse, begin_ms: int, table: str) -> None:
    """Each step of 5 minutes counted what its whole hour had: the day before had 12 times its messages."""
    uid, earlier_ms = Tenant.unscoped.get(name="acme").uid, begin_ms - 30 * HOUR_MS
    tell(minutes(uid, "acme/orders", TOPIC, "", earlier_ms, 60), [(earlier_ms, earlier_ms + HOUR_MS)], 2)
    span = {"from": time_text(begin_ms - 23 * HOUR_MS), "until": time_text(begin_ms + HOUR_MS)}
    page = text(browse("owner"), PAGE, compare="day", table=table, **span)
    row = page.partition("Messages in<")[2].partition("</tr>")[0]
    assert re.findall(r">([0-9,]+)<", row) == ["42,000", "36,000"]


def test_before_the_first_of_several_brokers_nothing_is_known(browse: Browse, begin_ms: int) -> None:
    uid = Tenant.unscoped.get(name="acme").uid
    points = minutes(uid, "acme/orders", TOPIC + "3", "", begin_ms + 50 * MINUTE_MS, 10)
    tell(points, [(begin_ms + 50 * MINUTE_MS, begin_ms + HOUR_MS)], 1, broker_id="broker-2")
    for path in ("/tenants/acme/history", f"{NAMESPACE}/history", PAGE):
        for span in ("24h", "30d"):  # each begins before both of them
            assert "it is known" in text(browse("owner"), path, span=span)


@pytest.mark.parametrize("path", ["/tenants/acme/history", f"{NAMESPACE}/history", f"{NAMESPACE}/topics/t/subscriptions/s/history"])
def test_every_level_has_a_page_and_says_where_nothing_is_known(browse: Browse, begin_ms: int, path: str) -> None:
    owner = browse("owner")
    assert "History" in text(owner, path) and 'data-chart="messages"' in text(owner, path)
    long_ago = {"from": time_text(begin_ms - 20 * 24 * HOUR_MS), "until": time_text(begin_ms - 19 * 24 * HOUR_MS)}
    assert "Nothing is known of it." in text(owner, path, **long_ago)
    assert browse("stranger").get(path).status_code == 404
    assert browse("").get(path).status_code == 302


def test_a_span_that_is_wrong_is_said(browse: Browse, begin_ms: int) -> None:
    response = browse("owner").get(PAGE, {"from": "yesterday"})
    assert response.status_code == 400 and "is not a time" in response.content.decode()


def test_the_timeline_has_handles_for_whoever_may_move_them_and_says_what_that_does(browse: Browse, broker: ConsoleBroker) -> None:
    broker.real.add(TOPIC, "s", "t")
    broker.real.publish(TOPIC, b"1", b"2")
    page = text(browse("owner"), PAGE)
    assert f'hx-get="{PAGE}/timeline?' in page
    told = text(browse("owner"), f"{PAGE}/timeline", span="1h")
    assert told.count('type="range"') == 2 and "Move there" in told
    seen = text(browse("teammate"), f"{PAGE}/timeline", span="1h")
    assert 'type="range"' not in seen and seen.count("<meter") == 2
    assert browse("stranger").get(f"{PAGE}/timeline").status_code == 404
    reset = f"{NAMESPACE}/topics/t/subscriptions/s/reset"
    preview = text(browse("owner"), reset, time_ms=str(int(time.time() * 1000) + 60_000))
    assert "2 unacknowledged entries are skipped" in preview and broker.real.backlog(TOPIC) == 2
    assert browse("owner").get(f"{NAMESPACE}/topics/absent/history/timeline").status_code == 404


def test_the_timeline_asks_again_while_the_broker_is_away(browse: Browse, broker: ConsoleBroker) -> None:
    broker.real.add(TOPIC, "s")
    broker.cut()
    away = text(browse("owner"), f"{PAGE}/timeline", span="1h")
    assert f'hx-get="{PAGE}/timeline?span=1h"' in away and "goes on by itself" in away and "no subscriptions" not in away
    reset = f"{NAMESPACE}/topics/t/subscriptions/s/reset"
    assert 'role="alert"' in text(browse("owner"), reset, time_ms="1700000000000"), "a handle that is moved meanwhile"
    broker.mend()
    back = text(browse("owner"), f"{PAGE}/timeline", span="1h")
    assert "/timeline" not in back and 'type="range"' in back


# --- charts


def steps(points: list[Point], known: list[tuple[int, int]], count: int) -> list[HistoryFigures]:
    return figures_of(cells_of([Source(points, known)], known, 0, count * MINUTE_MS, MINUTE_MS))


def test_a_line_is_flat_over_its_step_and_broken_where_there_is_nothing() -> None:
    assert path_of([1.0, 0.5, None, 0.0], 1.0) == "M0.0 0.0H250.0L250.0 80.0H500.0M750.0 160.0H1000.0"
    assert path_of([None], 1.0) == ""


def test_what_is_known_in_part_is_in_a_band_and_what_is_to_come_is_not() -> None:
    found = steps([], [(0, 70_000)], 4)
    assert bands_of(found, MINUTE_MS, 0) == [(250.0, 750.0)]
    assert bands_of(found, MINUTE_MS, 2) == [(250.0, 250.0)]


def test_means_and_peaks_are_lines_of_their_own() -> None:
    point = Point(0, MINUTE_MS, values_of(messages_in=60, in_peak=7))
    (chart,) = charts_of([MESSAGES], steps([point], [], 1), [], MINUTE_MS)
    assert [(line.label, line.peak) for line in chart.lines] == [
        ("in, mean", False), ("out, mean", False), ("in, highest 5 s", True), ("out, highest 5 s", True)
    ]  # fmt: skip
    assert (chart.top, chart.middle) == ("10/s", "5.0/s")
    assert "in, highest 5 s: at most 7.0/s" in chart.summary


@pytest.mark.parametrize("form", ["rate", "bytes", "span", "ms", "count"])
def test_the_axis_ends_above_every_value(form: str) -> None:
    for exponent in range(-3, 40):
        value = 1.7**exponent
        top = round_above(value, form)
        assert value <= top <= max(11 * value, 10) or form == "span"
        assert value <= top
        assert written(top, form)


def test_names_of_measures_are_figures() -> None:
    assert {measure.key for kind in OF_TOPICS for measure in kind.measures} <= set(HistoryFigures.__struct_fields__)
