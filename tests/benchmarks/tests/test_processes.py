"""The processes that a benchmark starts: a peer is refused or measured, and nothing is left running."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import processes, run
from tests.benchmarks.beside_peer.peer_process import PeerBroker
from tests.benchmarks.load import Stalled
from tests.benchmarks.scripts import script
from tests.support.waiting import eventually_sync

PEER_SCRIPT = """
import http.server, os, pathlib, sys
data = pathlib.Path(os.environ["DATA_DIR"])
data.mkdir()
(data / "standalone.conf").write_text("# of a peer\\njournalSyncData=SYNC\\n")
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"4.0.8")
    def log_message(self, *arguments):
        pass
assert sys.argv[1] == "standalone"
http.server.HTTPServer(("127.0.0.1", int(sys.argv[3])), Healthy).serve_forever()
"""


def test_a_peer_that_does_not_sync_is_refused_and_ended(tmp_path: Path) -> None:
    with pytest.raises(Stalled, match="journalSyncData=true"):
        PeerBroker(script(tmp_path / "peer.py", PEER_SCRIPT.replace("SYNC", "false")), tmp_path)
    assert not processes.children


def test_a_peer_that_syncs_is_measured(tmp_path: Path) -> None:
    broker = PeerBroker(script(tmp_path / "peer.py", PEER_SCRIPT.replace("SYNC", "true")), tmp_path)
    try:
        assert broker.version == "4.0.8" and broker.start_s > 0 and broker.cost().resident_bytes > 0
    finally:
        broker.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_benchmark_takes_its_children_along(tmp_path: Path, number: signal.Signals) -> None:
    """Even one that is paused, what such a child has started itself, and one that was started in another way.

    Two processes write to one pipe: each line is a single write, so that lines do not mix (an unbuffered `print` makes two).
    """
    program = (
        "import os, subprocess, sys, time; from tests.benchmarks import processes; processes.end_with_us();"
        "child = processes.start(['sh', '-c', 'sleep 1000 & echo $!; wait'], sys.stdout.fileno());"
        "other = subprocess.Popen(['sleep', '1000']); os.write(1, b'%d\\n' % other.pid);"
        "time.sleep(0.2); processes.pause(child); os.write(1, b'paused\\n'); time.sleep(1000)"
    )
    repository = Path(run.__file__).parents[2]
    benchmark = subprocess.Popen([sys.executable, "-c", program], cwd=repository, stdout=subprocess.PIPE, text=True)
    try:
        assert benchmark.stdout is not None
        started = [int(benchmark.stdout.readline()), int(benchmark.stdout.readline())]
        assert benchmark.stdout.readline() == "paused\n"
        benchmark.send_signal(number)
        benchmark.wait(30)
        eventually_sync(lambda: not any(map(alive, started)))
    finally:
        benchmark.kill()
        benchmark.communicate()


def alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
