"""Tiny runs of every benchmark, so that none of them rots: they assert what was measured and what is said of it, never how fast."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import decode
from tests.benchmarks import acks, bare_disk, catch_up, first_light, log_append, processes, profiling, restart, run, the_log, topics
from tests.benchmarks.beside_peer import peer
from tests.benchmarks.beside_peer.peer_report import COMPILED, PEER, PLAIN, ROWS
from tests.benchmarks.generator import Generator
from tests.benchmarks.hostile import attacks, neighbours
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Section, Table, page
from tests.benchmarks.scripts import script

ANSWER = (
    '{"msgs_per_s":1000,"latency":{"p50_ms":1.5,"p99_ms":3.0},"entries_sent":10,"open_s":0.1,"msgs_per_broker_core_s":6000,'
    '"broker_cpu_us_per_msg":2.0,"broker_cores":0.5,"rss_mib_before_open_after":[1,1,30]}'
)


def quietly(text: str) -> None:
    pass


@pytest.fixture
def generator() -> Generator:
    """The real load generator; skips where nobody named one."""
    path = os.environ.get("BENCH_RAWLOAD", "")
    if not path:
        pytest.skip("no load generator: build rawload and set BENCH_RAWLOAD to its path")
    return Generator(Path(path))


@pytest.fixture
def pulsar() -> Path:
    path = os.environ.get("BENCH_PEER", "")
    if not path:
        pytest.skip("no peer: set BENCH_PEER to a script that starts a Pulsar")
    return Path(path)


# --- the page ----------------------------------------------------------------------------------------------------------------


def test_a_figure_is_reached_on_its_limit_and_missed_beyond_it() -> None:
    assert Figure("more is better", 5.0, 5.0).reached and not Figure("more is better", 4.99, 5.0).reached
    assert Figure("less is better", 0.25, 0.25, at_least=False).reached
    assert not Figure("less is better", 0.26, 0.25, at_least=False).reached


def test_a_page_gives_every_target_its_verdict_and_names_what_failed() -> None:
    reached, missed = Figure("acks", 300_000, 200_000, "/s"), Figure("memory", 3.2, 2.0, "KiB", at_least=False)
    first = Section("First", "Words.", [Table(("a", "b"), [("1", "2")])], [reached, missed])
    second = Section("Second", failures=["it\nbroke"], details=[("Why", "because")])
    text = page("the-log", "magnetar bench the-log", [first, second], took_s=90)
    assert "1 of 2 reached" in text and "in 1.5 minutes" in text
    assert "| acks | 300,000 /s | >= 200,000 /s | reached |" in text
    assert "| memory | 3.20 KiB | <= 2.00 KiB | **missed** |" in text
    assert "- Second: it broke" in text
    assert "### Why\n\n```text\nbecause\n```" in text and "| 1 | 2 |" in text


def test_the_command_on_a_page_names_no_path_of_this_machine(tmp_path: Path) -> None:
    options = run.make_parser().parse_args(
        ["the-log", "--rawload", str(tmp_path), "--peer", str(tmp_path), "--dir", str(tmp_path), "--save"]
    )
    assert run.command(options) == "magnetar bench the-log --topics 100000 --rawload RAWLOAD --peer PULSAR"
    options = run.make_parser().parse_args(["features", "--rawload", str(tmp_path), "--peer", str(tmp_path)])
    assert run.command(options) == "magnetar bench features --peer PULSAR"


def test_every_part_of_a_page_is_one_that_can_be_measured_alone() -> None:
    assert {name for names in the_log.PAGES.values() for name in names} <= the_log.PARTS.keys()


# --- what is missing is said before anything is measured ---------------------------------------------------------------------


def test_without_the_load_generator_the_way_out_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_RAWLOAD", raising=False)
    assert run.main(["topics"]) == 2
    assert "name it with --rawload PATH, or set BENCH_RAWLOAD" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["dispatch", "opening", "features"])
def test_without_a_peer_the_way_out_is_named(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_PEER", raising=False)
    assert run.main([what]) == 2
    assert "name it with --peer PATH, or set BENCH_PEER" in capsys.readouterr().err


def test_a_peer_that_is_no_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "peer").write_text("not executable")
    assert run.main(["peer", "--rawload", sys.executable, "--peer", str(tmp_path / "peer")]) == 2
    assert "--peer" in capsys.readouterr().err


# --- nothing is left running -------------------------------------------------------------------------------------------------


# --- the parts ---------------------------------------------------------------------------------------------------------------


def test_the_launcher_runs_the_plain_loops_beside_a_compiled_twin(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, "--plain")
    try:
        assert broker.hot_loops() == "python"
    finally:
        broker.close()


def test_ack_frames_hold_every_id_once_and_ask_for_one_answer() -> None:
    ids = [pb.MessageId(ledger_id=1, entry_id=entry) for entry in range(7)]
    every_second = [decode(frame[4:]).ack for frame in acks.ack_frames(ids, acks.Way("", step=2))]
    assert [ack.message_id[0].entry_id for ack in every_second] == [0, 2, 4, 6, 1, 3, 5]
    assert [ack.HasField("request_id") for ack in every_second] == [False] * 6 + [True]
    batches = [decode(frame[4:]).ack for frame in acks.ack_frames(ids, acks.Way("", ids=3))]
    assert [len(ack.message_id) for ack in batches] == [3, 3, 1]


def test_acknowledgements(tmp_path: Path) -> None:
    section = acks.run(tmp_path, 2_000, quietly)
    assert section.failures == []
    assert len(section.tables[0].rows) == 2 * len(acks.WAYS)
    assert len(section.figures) == 4


def test_appends(tmp_path: Path) -> None:
    section = log_append.run(tmp_path, 0.05, quietly)
    assert [figure.target for figure in section.figures] == [0.5, 0.6]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
@pytest.mark.timeout(300)
def test_catching_up(tmp_path: Path) -> None:
    section = catch_up.run(tmp_path, 0.01, 0.1, quietly)
    assert [figure.target for figure in section.figures] == [1.5] * 8
    assert len(section.tables[0].rows) == 6 * len(catch_up.VARIANTS)
    assert all(figure.value > 0 for figure in section.figures)


def test_a_reader_that_ends_early_ends_the_benchmark() -> None:
    ours, theirs = multiprocessing.Pipe()
    reader = multiprocessing.get_context("spawn").Process(target=os._exit, args=(3,), daemon=True)
    reader.start()
    with ours, theirs, pytest.raises(Stalled, match="ended with 3"):
        catch_up.heard(ours, reader)


def test_half_of_the_bytes_waited_no_longer_than_the_median() -> None:
    waits = [(5.0, 10), (1.0, 30), (2.0, 30), (9.0, 30)]
    assert [bare_disk.quantile(waits, share) for share in (0.01, 0.3, 0.5, 0.7, 0.99)] == [1.0, 1.0, 2.0, 5.0, 9.0]


def test_a_part_that_fails_is_named_and_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(order: the_log.Order) -> Section:
        raise Stalled("no answer")

    monkeypatch.setitem(the_log.PARTS, "first", the_log.Part(fail))
    monkeypatch.setitem(the_log.PARTS, "second", the_log.Part(lambda order: Section("Second")))
    _, first, second = the_log.run(the_log.Order(tmp_path, None, None, quietly), ["first", "second"])
    assert (first.failures, second.title) == (["no answer"], "Second")


def test_an_interruption_hidden_by_another_error_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a child that the interruption killed is waited for in a `finally` clause."""

    def fail(order: the_log.Order) -> Section:
        processes.received_signals.append(signal.SIGTERM)
        raise Stalled("the load generator failed")

    monkeypatch.setattr(processes, "received_signals", [])
    monkeypatch.setitem(the_log.PARTS, "first", the_log.Part(fail))
    with pytest.raises(processes.Interrupted):
        list(the_log.run(the_log.Order(tmp_path, None, None, quietly), ["first", "append"]))


def test_first_light(tmp_path: Path) -> None:
    floors, section = first_light.run(tmp_path, 0.001, quietly)
    assert len(floors.tables[0].rows) == 5
    assert len(section.tables[0].rows) == len(first_light.CASES)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
def test_a_comparison_of_brokers_with_a_row_that_fails(tmp_path: Path) -> None:
    """Real brokers and a generator that only prints: the peer's place is taken by one of ours."""
    text = "import sys\nif '65536' in sys.argv: sys.exit('no such size')\nprint('" + ANSWER + "')\n"
    rows = (ROWS[0], ROWS[3])
    comparison = peer.Comparison(Generator(script(tmp_path / "generator", text)), peer.Plan(0.1, 2, 0.1, rows), quietly)
    with ExitStack() as stack:
        for name in (COMPILED, PLAIN, PEER):
            (tmp_path / name).mkdir()
            comparison.add(name, stack, lambda name=name: RealBroker(tmp_path / name))  # type: ignore[misc]
        comparison.warm_up()
        for row in rows:
            comparison.measure(row)
    section = comparison.report(tmp_path)
    assert {figure.value for figure in section.figures} == {1.0}
    assert [figure.reached for figure in section.figures[:2]] == [False, False]  # five and two times the peer were asked for
    assert [cells[2] for cells in section.tables[2].rows] == ["1.00 (1.00, 1.00)", "not measured"]
    assert any("no such size" in failure for failure in section.failures)
    assert not any(ROWS[0].name in failure for failure in section.failures)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
@pytest.mark.timeout(300)
def test_many_topics(tmp_path: Path, generator: Generator) -> None:
    section = topics.run(tmp_path, generator, 20, 0.5, quietly)
    assert section.failures == []
    assert len(section.tables[0].rows) == 4
    descriptors, tasks = [figure for figure in section.figures if figure.unit == "in all"]
    assert (descriptors.value, tasks.value) == (0, 0)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
def test_profiles(tmp_path: Path, generator: Generator) -> None:
    (_, native), (_, python) = profiling.profiles(generator, tmp_path, "publishing", ROWS[0].load, seconds=0.3)
    assert native.strip()
    assert "tottime" in python and "function calls" in python


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.xdist_group("benchmarks")
@pytest.mark.timeout(300)
def test_beside_the_peer(tmp_path: Path, generator: Generator, pulsar: Path) -> None:
    section = peer.run(tmp_path, generator, pulsar, peer.Plan(0.5, 1, 1.0, ROWS[:1]), quietly)
    assert section.failures == []
    assert [row[1] for row in section.tables[1].rows] == [COMPILED, PLAIN, PEER]
    assert hot.COMPILED or section.figures


def test_restart(tmp_path: Path) -> None:
    section = restart.run(tmp_path, 50, 0.01, quietly)
    assert [row[0] for row in section.tables[0].rows] == [
        "filling",
        "the log alone",
        "the broker, until it takes traffic",
        "... first receipt",
    ]
    assert len(section.figures) == 1 and not section.failures
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "names",
    [
        ["exceed-all"],
        pytest.param(["pings", "listings"], marks=pytest.mark.thorough),
        pytest.param(["silence", "half-requests", "garbage"], marks=pytest.mark.thorough),
    ],
)
def test_neighbours_tells_what_an_innocent_tenant_felt(tmp_path: Path, names: list[str]) -> None:
    section = neighbours.run(tmp_path, 0.5, quietly, names)
    (table,) = section.tables
    assert [row[0] for row in table.rows] == [attacks.ATTACKS[name][0] for name in names]
    assert len(section.figures) == 3 * len(names) and section.failures == []
    for row in table.rows:
        felt = dict(zip(table.columns, row, strict=True))
        assert float(felt["receipts/s"].replace(",", "")) > 0 and felt["unanswered"] == "0"
        assert int(felt["attempts"].replace(",", "")) > 0  # it did attack


def test_every_attack_is_said_in_words() -> None:
    said = words_of_help()
    assert all(words and name in said for name, (words, _) in attacks.ATTACKS.items())


def words_of_help() -> str:
    command = [sys.executable, "-P", "-m", "tests.benchmarks.hostile.attacks", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
