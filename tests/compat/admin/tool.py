"""Pulsar's own `pulsar-admin`, in one process for many commands (AdminCommands.java)."""

from __future__ import annotations

import os
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import NamedTuple

_PROGRAM = Path(__file__).with_name("AdminCommands.java")


class Result(NamedTuple):
    code: int
    output: str
    errors: str


class AdminTool:
    """Needs Java, and in PULSAR_PEER_HOME the class path of a Pulsar (`lib`)."""

    def __init__(self, folder: Path, web_url: str, broker_url: str, token: str | None) -> None:
        lines = [f"webServiceUrl={web_url}", f"brokerServiceUrl={broker_url}"]
        if token is not None:
            lines += ["authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken", f"authParams=token:{token}"]
        conf = folder / f"client-{web_url.rpartition(':')[2]}.conf"
        conf.write_text("\n".join(lines))
        self._log = folder / "tool.log"
        with self._log.open("wb") as errors:
            command = [*java(), str(conf)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)

    def run(self, arguments: list[str]) -> Result:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\t".join(b64encode(argument.encode()).decode() for argument in arguments) + "\n")
        self._process.stdin.flush()
        answer = "\n"
        while answer and not answer.startswith("="):  # some commands print around the stream that they are given
            answer = self._process.stdout.readline()
        assert answer, (arguments, self._log.read_text()[-2000:])
        _, code, output, errors = answer.rstrip("\n").split("\t")
        return Result(int(code), b64decode(output).decode(), b64decode(errors).decode())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def java() -> list[str]:
    home = Path(os.environ.get("PULSAR_PEER_HOME") or Path.home() / ".cache" / "pulsar-peer")
    return ["java", "-Xmx256m", "-cp", f"{home}/stub:{home}/lib/*", str(_PROGRAM)]
