"""``magnetar bench``: runs the benchmarks of this folder and prints, or saves, what they measured."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from messaging.protocol import build_hot, hot_extensions
from tests.benchmarks import first_light, load, processes, report, the_log
from tests.benchmarks.beside_peer import peer_process
from tests.benchmarks.generator import Generator

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
FIRST_LIGHT = "first-light"
_DESCRIPTION = """\
Measure Magnetar on this machine, beside the machine's own floors.

  first-light   publish and delivery through one broker: a minute (the default)
  the-log       append to restart on one page: up to 20 minutes
  features      dispatch and opening on one page: seven minutes
  append        durable appends to the log alone
  acks          individual acknowledgements
  catch-up      a reader far behind, beside producers
  topics        many topics on one broker                   (needs --rawload)
  restart       a broker after kill -9, with many topics and 20 GiB stored
  peer          the same load on Magnetar and on a Pulsar   (needs --rawload and --peer)
  neighbours    what a tenant feels of hostile others: four minutes
  shared-slots  what a tenant waits for beside one that takes all it can: four minutes
  rates         how exact publish and dispatch rates are: a minute and a half
  delayed       1, 10 and 100 million delayed messages: a quarter of an hour, 10 GB
  delayed-peer  a million delayed messages on Magnetar and on a Pulsar: five minutes              (needs --peer)
  dispatch      Shared, Key_Shared, many subscriptions on Magnetar and on a Pulsar: six minutes  (needs --peer)
  listing       100,000 topics over the admin API; pages of topics, keys, audit records: five minutes
  lists         pages of 100,000 rows of every other kind, in the console and over both APIs: ten minutes
  gateway       the SDK over TCP, the WebSocket port and the web port: a minute
  postgresql    a broker on PostgreSQL beside one with its log of files: a minute      (needs --postgresql)
  fleet         brokers of one machine beside one; look-ups; with --postgresql, bundles that move   (needs --rawload)
  bookies       a broker on bookies beside one of Pulsar on the same: five minutes                (needs --rawload and --peer)
  producer      what settings of a producer cost and save, and the SDK beside Apache's client: two minutes
  billing       hourly usage from 10^5 to 10^8 records beside pyarrow: half an hour
  opening       5,000 topics opened on Magnetar and on a Pulsar                                    (needs --peer)
"""


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    start = time.monotonic()

    def progress(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - start:6.1f} s  {text}\n")

    names = _parts(options.what)
    if lacking := _lacking(names, options):
        sys.stderr.write(f"magnetar: {lacking}\n")
        return 2
    processes.end_with_us()
    if options.dir is not None:
        options.dir.mkdir(parents=True, exist_ok=True)
    path = DOCS / f"{options.what}.md" if options.save else options.out
    try:
        page, complete = _measure(options, names, progress, path)
    except load.Stalled as error:
        sys.stderr.write(f"magnetar: the benchmark did not get through: {error}\n")
        return 1
    finally:
        processes.end_all()
    if path is None:
        sys.stdout.write(page)
    return 0 if complete else 1


def _measure(options: argparse.Namespace, names: list[str], progress: report.Progress, path: Path | None) -> tuple[str, bool]:
    """The page, and whether everything on it was measured. Written anew after each section: what was measured is not lost."""
    start = time.monotonic()
    if options.what == FIRST_LIGHT:
        parts = first_light.run(options.dir, options.scale, progress)
    else:
        parts = the_log.run(_order(options, progress), names)
    sections, page = [], ""
    for section in parts:
        sections.append(section)
        page = report.page(options.what, command(options), sections, time.monotonic() - start)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page)
            progress(f"{section.title}: in {path}")
    return page, not any(section.failures for section in sections)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="magnetar bench", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=[FIRST_LIGHT, *the_log.PAGES, *the_log.PARTS], default=FIRST_LIGHT)
    parser.add_argument(
        "--dir", type=Path, help="where brokers write; its disk is what is measured (default: the temporary folder)"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of messages and seconds; 0.1 is a quick look (default: 1)")
    parser.add_argument("--rawload", default=os.environ.get("BENCH_RAWLOAD"), help="the load generator (or set BENCH_RAWLOAD)")
    parser.add_argument("--peer", default=os.environ.get("BENCH_PEER"), help="script that starts the peer (or set BENCH_PEER)")
    parser.add_argument(
        "--postgresql", default=os.environ.get("BENCH_POSTGRESQL"), help="URL of an empty database (or set BENCH_POSTGRESQL)"
    )
    parser.add_argument(
        "--topics", type=int, default=100_000, help="of `topics`, `restart`, `listing` and `fleet` (default: 100,000)"
    )
    parser.add_argument("--profile", action="store_true", help="where a target is missed, add where the broker's time goes")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--save", action="store_true", help="write the page into docs/benchmarks/ instead of printing it")
    where.add_argument("--out", type=Path, help="write the page to this file")
    return parser


def _parts(what: str) -> list[str]:
    return list(the_log.PAGES.get(what, (what,)))


def _lacking(names: list[str], options: argparse.Namespace) -> str:
    """Why these benchmarks cannot run here; empty if they can."""
    if not hot_extensions.built() and build_hot.possible():
        return "the hot loops are not compiled from the sources as they are now: run make setup"
    parts = [the_log.PARTS[name] for name in names if name in the_log.PARTS]
    if any(part.needs_generator for part in parts) and (lacking := peer_process.no_generator(options.rawload)):
        return lacking
    if any(part.needs_postgresql for part in parts) and not options.postgresql:
        return "this benchmark needs an empty database of a PostgreSQL: --postgresql postgresql://user@host/database"
    return peer_process.no_peer(options.peer) if any(part.needs_peer for part in parts) else ""


def _order(options: argparse.Namespace, progress: report.Progress) -> the_log.Order:
    return the_log.Order(
        directory=options.dir,
        generator=Generator(Path(options.rawload)) if options.rawload else None,
        peer=Path(options.peer) if options.peer else None,
        progress=progress,
        scale=options.scale,
        topics=options.topics,
        profile=options.profile,
        postgresql=options.postgresql or "",
    )


def command(options: argparse.Namespace) -> str:
    """What repeats this run, with names instead of the paths of this machine."""
    words = ["magnetar bench", options.what]
    if options.scale != 1:
        words.append(f"--scale {options.scale:g}")
    parts = _parts(options.what)
    if {"topics", "restart", "listing", "fleet"}.intersection(parts):
        words.append(f"--topics {options.topics}")
    known = [the_log.PARTS[name] for name in parts if name in the_log.PARTS]
    if options.rawload and any(part.needs_generator for part in known):
        words.append("--rawload RAWLOAD")
    if options.peer and any(part.needs_peer for part in known):
        words.append("--peer PULSAR")
    if any(part.needs_postgresql for part in known):
        words.append("--postgresql URL")
    if options.profile:
        words.append("--profile")
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
