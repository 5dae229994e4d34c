"""Runs the image magnetar:VERSION without a daemon, as `make image` made it, and lets a stock client publish and consume.

    python -m deploy.image.trial VERSION

As root; needs buildah. The processes are in a chroot as user 6650 and use this machine's network: ports 6650, 8080 and 8081 have to
be free.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pulsar

USER = 6650
MESSAGES = 1000
READY_S, STOPPED_S = 120.0, 30.0


def buildah(*arguments: str) -> str:
    return subprocess.run(["buildah", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def run(container: str, data: str, *command: str) -> list[str]:
    volume = f"{data}:/var/lib/magnetar"
    return ["buildah", "run", "--isolation", "chroot", "--user", f"{USER}:{USER}", "--volume", volume, container, "--", *command]


def wait_for(what: str, until_s: float, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + until_s
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {until_s:g} s")
        time.sleep(0.5)


def publish_and_consume(token: str) -> int:
    """The number of messages that came back."""
    log = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client("pulsar://127.0.0.1:6650", authentication=pulsar.AuthenticationToken(token), logger=log)
    consumer = client.subscribe("public/default/image", "trial")
    producer = client.create_producer("public/default/image")
    for number in range(MESSAGES):
        producer.send_async(str(number).encode(), lambda result, message_id: None)
    producer.flush()
    received: set[bytes] = set()
    while len(received) < MESSAGES:
        message = consumer.receive(20_000)
        received.add(message.data())
        consumer.acknowledge(message)
    client.close()
    return len(received)


def main(version: str) -> None:
    container = buildah("from", f"magnetar:{version}")
    with tempfile.TemporaryDirectory(prefix="magnetar-image-") as data:
        os.chown(data, USER, USER)
        process = subprocess.Popen(
            run(container, data, "magnetar", "standalone"), start_new_session=True, stdout=subprocess.DEVNULL
        )
        try:

            def healthy() -> bool:
                if process.poll() is not None:
                    raise SystemExit(f"it ended with code {process.returncode}")
                return subprocess.run(run(container, data, "healthcheck"), capture_output=True).returncode == 0

            wait_for("its health check", READY_S, healthy)
            token = Path(data, "secrets", "superuser.token").read_text().strip()
            sys.stdout.write(f"{publish_and_consume(token)} messages published and consumed\n")
            loops = "from messaging.protocol import hot; print('hot loops compiled:', hot.COMPILED)"
            sys.stdout.write(subprocess.run(run(container, data, "python", "-c", loops), capture_output=True, text=True).stdout)
            uids = {path.stat().st_uid for path in Path(data).rglob("*")}
            sys.stdout.write(f"what it wrote belongs to {uids}\n")
        finally:
            supervisor = Path(data, "run", "supervisor.json")
            if process.poll() is None and supervisor.exists():
                os.kill(json.loads(supervisor.read_bytes())["pid"], signal.SIGTERM)  # as an engine does
                sys.stdout.write(f"stopped with code {process.wait(STOPPED_S)}\n")
            buildah("rm", container)


if __name__ == "__main__":
    main(sys.argv[1])
