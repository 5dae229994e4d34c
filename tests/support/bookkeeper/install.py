"""Fetches bookies, a ZooKeeper and Apache's client with Maven, below .venv/clients: ``python -m
tests.support.bookkeeper.install``.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.support.installing import Missing, only_mavens_own_repository, require_version, run_command, tool, version_of

SOURCES = Path(__file__).parent
HOME = Path(__file__).parents[3] / ".venv" / "clients" / "bookkeeper"
NEEDED = "make clients, with maven and a JDK 17 or newer (Debian: maven default-jdk-headless)"


def digest() -> str:
    return hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in ("pom.xml", "Peer.java"))).hexdigest()


def ready() -> bool:
    made = HOME / "made"
    return made.exists() and made.read_text() == digest()


def install() -> None:
    """Raises `Missing`."""
    if ready():
        return
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    maven, compiler = tool("mvn", "maven"), tool("javac", "default-jdk-headless")
    require_version("Java", (17,), version_of([compiler, "-version"], HOME))
    settings = HOME / "settings.xml"
    settings.write_text(only_mavens_own_repository(Path(maven).resolve()))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={HOME / 'lib'}"]
    run_command([maven, "-q", "-B", "-s", str(settings), "-f", str(SOURCES / "pom.xml"), *goal], HOME)
    compile_peer = [compiler, "-nowarn", "-cp", str(HOME / "lib" / "*"), "-d", str(HOME / "classes"), str(SOURCES / "Peer.java")]
    run_command(compile_peer, HOME)
    (HOME / "made").write_text(digest())


if __name__ == "__main__":
    print("Installing bookies of Apache BookKeeper", flush=True)
    try:
        install()
    except Missing as error:
        print(f"  not installed: {error}", flush=True)
