"""The oracle: runs the scenarios against a real Pulsar and against Magnetar, and says where a client could tell them apart.

`make oracle` starts both, compares, and exits with 1 if anything differs that neither `not_yet.toml` nor `ours.json` lists.
`make oracle ARGS=--clients` tries on Pulsar what the programs of tests/compat/clients try: every feature has to work there.
`make oracle ARGS=--admin` compares the commands of `pulsar-admin` (tests/compat/admin), run by Pulsar's own tool on both.
`make oracle ARGS=--record` also writes down Pulsar's outcomes, each of which has to be the same in three runs.

Needs a Pulsar: BENCH_PEER names a script whose `standalone BROKER_PORT WEB_PORT` runs one in the foreground, or `--pulsar` and
`--pulsar-web` the URLs of one that is running, on which everybody may do everything.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path

from tests.compat.admin import compare
from tests.compat.probes import CLIENTS, make_keys, probe_all
from tests.compat.scenarios import (
    NOT_YET,
    OURS,
    Outcome,
    Platform,
    Scenario,
    load_recorded,
    run_all,
    run_and_compare,
    save_recorded,
    scenarios,
)
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

RUNS = 3
START_S = 180.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make oracle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="a pattern of names, such as 'seeks.*'")
    parser.add_argument("--record", action="store_true", help="write down what Pulsar answers")
    parser.add_argument("--clients", action="store_true", help="try the features of the other clients on Pulsar, and nothing else")
    parser.add_argument("--ours-only", action="store_true", help="compare with what was recorded, without a Pulsar")
    parser.add_argument("--pulsar", default="", metavar="URL", help="the broker URL of a running Pulsar")
    parser.add_argument("--pulsar-web", default="", metavar="URL", help="its HTTP URL")
    parser.add_argument("--admin", action="store_true", help="compare the commands of pulsar-admin, and nothing else")
    options = parser.parse_args(arguments)
    chosen = {name: scenario for name, scenario in scenarios().items() if fnmatch(name, options.only)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oracle-")))
        theirs = load_recorded()
        if options.admin:
            there = None if options.ours_only else a_pulsar(folder, options.pulsar, options.pulsar_web)
            return compare(there, _magnetar(folder), folder, only=options.only, write=options.record)
        if not options.ours_only:
            pulsar = stack.enter_context(a_pulsar(folder, options.pulsar, options.pulsar_web))
            if options.clients:
                return _features(pulsar, folder)
            theirs = _stable(chosen, pulsar, RUNS if options.record else 1)
            if options.record:
                save_recorded(load_recorded() | theirs)
        wanted = theirs | {name: difference["outcome"] for name, difference in OURS.items()}
        ours = run_and_compare(chosen, stack.enter_context(_magnetar(folder)), wanted)
    return _report(chosen, theirs, ours)


def _stable(chosen: dict[str, Scenario], platform: Platform, runs: int) -> dict[str, Outcome]:
    """Pulsar's outcomes; those that are not the same every time, and those of scenarios that failed, are left out and said."""
    results = [run_all(chosen, platform) for _ in range(runs)]
    kept = {}
    for name in chosen:
        outcomes = [result[name] for result in results]
        if any(outcome != outcomes[0] for outcome in outcomes) or (isinstance(outcomes[0], dict) and "failed" in outcomes[0]):
            print(f"UNSTABLE on Pulsar: {name}\n  " + "\n  ".join(json.dumps(outcome)[:400] for outcome in outcomes))
        else:
            kept[name] = outcomes[0]
    return kept


def _features(platform: Platform, folder: Path) -> int:
    failed = 0
    for name, result in probe_all(CLIENTS, platform, make_keys(folder)).items():
        errors = {feature: error for feature, error in result.features.items() if error}
        print(
            f"{name}: {len(result.features) - len(errors)} features work on Pulsar"
            + "".join(f"\n  {failure}" for failure in errors.items())
        )
        failed += len(errors)
    return int(failed > 0)


def _report(chosen: dict[str, Scenario], theirs: dict[str, Outcome], ours: dict[str, Outcome]) -> int:
    unexpected = 0
    same = 0
    for name in chosen:
        if name not in theirs:
            continue
        if name in OURS:
            wanted, listed = OURS[name]["outcome"], f"ours: {OURS[name]['why']}"
        else:
            wanted, listed = theirs[name], NOT_YET.get(name, "")
        if ours[name] == wanted:
            same += 1
            if name in NOT_YET:
                print(f"PASSES NOW, and is still in not_yet.toml: {name}")
                unexpected += 1
            continue
        unexpected += name not in NOT_YET
        print(f"{'not yet' if name in NOT_YET else 'DIFFERS'}: {name}  {listed}")
        print(
            f"  wanted {json.dumps(wanted, ensure_ascii=False)[:600]}\n  ours   {json.dumps(ours[name], ensure_ascii=False)[:600]}"
        )
    print(f"{len(chosen)} scenarios: {same} as wanted, {unexpected} unexpected")
    return int(unexpected > 0)


# --- the two platforms -------------------------------------------------------------------------------------------------------


@contextmanager
def _magnetar(folder: Path) -> Iterator[Platform]:
    standalone = Standalone(folder / "data")
    standalone.start()
    try:
        yield Platform.of(standalone, folder / "client.log")
    finally:
        standalone.close()


@contextmanager
def a_pulsar(folder: Path, url: str, web_url: str) -> Iterator[Platform]:
    if url:
        yield Platform(url, web_url, _ws_url(web_url), None, folder / "pulsar-client.log")
        return
    peer = os.environ.get("BENCH_PEER", "")
    if not peer:
        sys.exit("No Pulsar: set BENCH_PEER, give --pulsar and --pulsar-web, or compare with the recorded outcomes by --ours-only")
    broker, web = _free_port(), _free_port()
    with (folder / "pulsar.log").open("wb") as output:
        process = subprocess.Popen(
            [peer, "standalone", str(broker), str(web)],
            env={**os.environ, "DATA_DIR": str(folder / "pulsar")},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        web_url = f"http://127.0.0.1:{web}"
        eventually_sync(lambda: process.poll() is not None or _is_ready(web_url), START_S)
        assert process.poll() is None, (folder / "pulsar.log").read_text()[-4000:]
        yield Platform(f"pulsar://127.0.0.1:{broker}", web_url, _ws_url(web_url), None, folder / "pulsar-client.log")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ws_url(web_url: str) -> str:
    """Pulsar's WebSockets share the HTTP port."""
    return web_url.replace("http", "ws", 1)


def _is_ready(web_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{web_url}/admin/v2/namespaces/public/default", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
