"""A network of machines that a campaign cuts: each a network namespace of its own behind one bridge, with an address of its own.

It needs root and iproute2; `refused_by` says what is missing. A cut drops packets, so that nobody is told: no connection is refused
or reset, as when a cable is pulled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

HOST = "clients"  # this machine itself, where clients run
NEEDED = ("ip", "iptables")


class Refused(Exception):
    """No right to make namespaces, or no programs for it."""


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError as error:
        raise Refused(f"{command[0]}: {error}") from None
    if done.returncode:
        raise Refused(f"{' '.join(command)}: {done.stderr.strip()}")


def refused_by() -> str:
    """Why no network can be made here; "": one can."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        return f"no {' and no '.join(missing)}: install iproute2 and iptables"
    name = f"mt{os.getpid()}-try"
    try:
        _run("ip", "netns", "add", name)
        try:
            _run("ip", "netns", "exec", name, "iptables", "-L", "-n")
        finally:
            _run("ip", "netns", "del", name)
    except Refused as error:
        return str(error)
    return ""


class Network:
    """`addresses`: name of a machine -> its address."""

    def __init__(self) -> None:
        self._tag = f"m{os.getpid() % 100_000}"
        self._bridge = f"{self._tag}br"
        self._net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.addresses: dict[str, str] = {}

    def open(self) -> None:
        """Raises `Refused`."""
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        self.addresses[HOST] = f"{self._net}.1"
        _run("ip", "addr", "add", f"{self.addresses[HOST]}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")

    def close(self) -> None:
        for name in [*self.addresses]:
            if name != HOST:
                _run("ip", "netns", "del", self._namespace(name))
        if self.addresses:
            _run("ip", "link", "del", self._bridge)
        self.addresses.clear()

    def add(self, name: str) -> str:
        """A machine; its address."""
        number = len(self.addresses) + 1
        outside, inside, namespace = f"{self._tag}v{number}", f"{self._tag}w{number}", self._namespace(name)
        address = self.addresses[name] = f"{self._net}.{number}"
        _run("ip", "netns", "add", namespace)
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", namespace)
        _run("ip", "link", "set", outside, "master", self._bridge)
        _run("ip", "link", "set", outside, "up")
        _run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", inside)
        for link in ("lo", inside):
            _run("ip", "-n", namespace, "link", "set", link, "up")
        return address

    def _namespace(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def command(self, name: str) -> list[str]:
        """What a command begins with that runs on that machine; it becomes the command's process."""
        return [] if name == HOST else ["ip", "netns", "exec", self._namespace(name)]

    def cut(self, name: str, *others: str, hears: bool = False, heard: bool = False) -> None:
        """Nothing passes between the machine `name`, which is not HOST, and `others`; by default all. `hears`: it still gets what
        they send; `heard`: they get what it sends."""
        for other in others or [each for each in self.addresses if each != name]:
            address = self.addresses[other]
            for drops, arguments in ((not hears, ["INPUT", "-s", address]), (not heard, ["OUTPUT", "-d", address])):
                if drops:
                    _run(*self.command(name), "iptables", "-w", "-A", *arguments, "-j", "DROP")

    def heal(self, name: str) -> None:
        """Everything passes that machine again."""
        _run(*self.command(name), "iptables", "-w", "-F")


@contextmanager
def opened_network() -> Iterator[Network]:
    network = Network()
    try:
        network.open()
        yield network
    finally:
        network.close()
