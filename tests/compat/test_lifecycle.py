"""A platform from its first start to its last stop: TLS, clean stops, a `kill -9` of everything, and what is there afterwards."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pulsar
import pytest

from controlplane.ports import holder
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import command, decode
from tests.benchmarks import wire
from tests.benchmarks.load import Peer, publisher, subscriber
from tests.compat.stock import Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone, pytest.mark.crash]
TOPIC = "persistent://public/default/lifecycle"
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Standalone]:
    """A platform of this test alone, with TLS; not started."""
    platform = Standalone(tmp_path / "data", "--tls", "self-signed", MAGNETAR_BROKER_TLS_PORT="0")
    yield platform
    platform.close()


def _ports(platform: Standalone) -> list[int]:
    urls = [platform.ready[name] for name in ("broker_url", "broker_url_tls", "web_url", "ws_url")]
    return [port for url in urls if (port := urlsplit(url).port)]


def _held(ports: list[int], folder: Path) -> list[str]:
    """Of the ports, those that a process of this platform listens on. Other tests beside this one may take what it gave back."""
    listening = []
    for port in ports:
        match = re.search(r"process (\d+)", holder(port))
        if match and str(folder).encode() in _environment(int(match[1])):
            listening.append(f"{port}{holder(port)}")
    return listening


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.timeout(240)
def test_from_the_first_start_to_the_last_stop(own: Standalone, tmp_path: Path) -> None:
    own.start()
    ready = own.ready
    assert set(ready) == {
        *("broker_url", "broker_url_tls", "web_url", "ws_url", "pid"),
        *("admin_token_file", "console_user", "console_password_file"),
    }
    for name in ("admin_token_file", "console_password_file"):
        assert Path(ready[name]).stat().st_mode & 0o777 == 0o600
    assert own.admin_token not in own.output() and own.console_password not in own.output()

    # TLS on every listener, with one file to trust.
    authority = str(own.folder / "tls" / "ca.pem")
    stock = Stock(ready["broker_url_tls"], tmp_path / "client.log")
    client = stock.client(own.admin_token, tls_trust_certs_file_path=authority, tls_validate_hostname=True)
    producer = client.create_producer(TOPIC)
    for number in range(100):
        producer.send(str(number).encode())
    consumer = client.subscribe(TOPIC, "first", initial_position=EARLIEST)
    assert [int(message.data()) for message in receive(consumer, 100)] == list(range(100))
    assert own.http("GET", "/readyz").status == 200
    assert own.http("GET", "/readyz", url=ready["ws_url"].replace("wss://", "https://")).status == 200
    with pytest.raises(pulsar.PulsarException):  # who does not trust us gets nowhere
        stock.client(tls_trust_certs_file_path=None, operation_timeout_seconds=2).create_producer(TOPIC)
    stock.close()

    # kill -9 of the supervisor: everything ends by itself, and leaves nothing.
    pids, ports = own.pids(), _ports(own)
    assert len(_held(ports, own.folder)) == len(ports)
    own.process.kill()
    own.process.wait()
    eventually_sync(lambda: not own.left(pids), 15)
    assert _held(ports, own.folder) == []
    assert not (own.folder / "ready.json").exists()

    # The next start works, at once, and everything receipted is there.
    own.start()
    plain = Stock(own.ready["broker_url"], tmp_path / "client.log")
    again = plain.client().subscribe(TOPIC, "second", initial_position=EARLIEST)
    assert [int(message.data()) for message in receive(again, 100)] == list(range(100))
    plain.close()

    # SIGTERM: within ten seconds, exit code 0, and nothing is left.
    pids = own.pids()
    code, took_s = own.stop()
    assert code == 0 and took_s < 10
    assert own.left(pids) == [] and not (own.folder / "ready.json").exists()


@pytest.mark.timeout(240)
def test_an_existing_directory_starts_and_stops_by_interrupt(own: Standalone) -> None:
    own.start()
    os.kill(own.process.pid, signal.SIGINT)
    assert own.process.wait(20) == 0
    own.start()
    assert "prepare" not in {child["name"] for child in own.state()["children"]}, "the database was prepared by the first start"


def _acknowledge_durably(peer: Peer, frame: bytes) -> None:
    """Acknowledges one message and waits for the answer that it is durable."""
    message = decode(frame).message
    request = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message.message_id], request_id=77)
    answer = decode(peer.ask(command(pb.Command.ACK, ack=request), pb.Command.ACK_RESPONSE))
    assert answer.ack_response.request_id == 77 and not answer.ack_response.HasField("error")


def test_an_answered_acknowledgement_is_never_redelivered(standalone: Standalone, stock: Stock, topic: str) -> None:
    """Every second message is acknowledged with a receipt; then the broker is killed with `kill -9`."""

    def address() -> tuple[str, int]:
        parts = urlsplit(standalone.ready["broker_url"])
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    stock.client().subscribe(topic, "bench", pulsar.ConsumerType.Shared).close()
    producing, name = publisher(address(), topic)
    stream = wire.Stream(name, 20, 64, 1)
    for number in range(20):
        producing.ask(bytes(stream.slice(number, number + 1)), wire.SEND_RECEIPT)
    consuming = subscriber(address(), topic, 0)
    acknowledged = set()
    for number in range(20):
        frame = consuming.ask(wire.flow(1), wire.MESSAGE)
        if number % 2:
            _acknowledge_durably(consuming, frame)
            identifier = decode(frame).message.message_id
            acknowledged.add((identifier.ledger_id, identifier.entry_id))
    standalone.kill_child("broker")
    producing.close()
    consuming.close()
    consumer = stock.client().subscribe(topic, "bench", pulsar.ConsumerType.Shared)
    redelivered = {(message.message_id().ledger_id(), message.message_id().entry_id()) for message in receive(consumer, 10)}
    assert nothing_more(consumer)
    assert len(acknowledged) == 10 and len(redelivered) == 10
    assert not acknowledged & redelivered
