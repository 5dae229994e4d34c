"""Installs the clients of other languages and releases below .venv/clients, from package registries: `make clients`.

One that cannot be installed is said, and its tests skip and say the same. Nothing here is needed to run Magnetar.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.installing import Missing, only_mavens_own_repository, require_version, run_command, tool, version_of

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "compat" / "clients"
INSTALLED = ROOT / ".venv" / "clients"
PYTHON_NOW = "3.13.0"
PYTHON_BEFORE = ("3.10.0", "3.7.0", "3.4.0")
PYTHON_WITHOUT_ASYNCIO = ("3.4.0",)
GO_AT_LEAST = (1, 24)
RUST_AT_LEAST = (1, 85)


@dataclass(frozen=True)
class Client:
    """`sources` is a folder of PROGRAMS, `command` runs its program, `home` is where it is installed (None: in .venv itself)."""

    sources: str
    command: tuple[str, ...]
    home: Path | None
    install: Callable[[Path], None]
    needs: str

    @property
    def ready(self) -> bool:
        return self.home is None or _read(self.home / "made") == _digest(self.sources)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _digest(sources: str) -> str:
    files = sorted(path for path in (PROGRAMS / sources).rglob("*") if path.is_file()) if sources != "python" else []
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _nothing(home: Path) -> None:
    pass


def _python(version: str) -> Callable[[Path], None]:
    def install(home: Path) -> None:
        run_command([sys.executable, "-m", "venv", str(home)], ROOT)
        certifi = re.search(r"^certifi==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary", ":all:"]
        packages = [f"pulsar-client=={version}", certifi[0] if certifi else "certifi"]
        run_command([str(home / "bin" / "python"), "-m", "pip", "install", *options, *packages], ROOT)

    return install


def _java(home: Path) -> None:
    maven, compiler = tool("mvn", "maven"), tool("javac", "default-jdk-headless")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={home / 'lib'}"]
    settings = home / "settings.xml"
    settings.write_text(only_mavens_own_repository(Path(maven).resolve()))
    run_command([maven, "-q", "-B", "-s", str(settings), "-f", str(PROGRAMS / "java" / "pom.xml"), *goal], home)
    sources = [str(path) for path in (PROGRAMS / "java").glob("*.java")]
    run_command([compiler, "-nowarn", "-cp", str(home / "lib" / "*"), "-d", str(home / "classes"), *sources], home)


def _go(home: Path) -> None:
    compiler = tool("go", "golang-go")
    require_version("Go", GO_AT_LEAST, version_of([compiler, "env", "GOVERSION"], home))
    run_command(
        [compiler, "build", "-trimpath", "-o", str(home / "probe"), "."],
        PROGRAMS / "go",
        GOTOOLCHAIN="local",
        GOFLAGS="-mod=readonly -buildvcs=false",
    )


def _rust(home: Path) -> None:
    compiler = shutil.which("cargo") or shutil.which("cargo", path=Path.home() / ".cargo" / "bin")
    if compiler is None:
        raise Missing("no cargo: install rustup, and with it a toolchain")
    require_version("Rust", RUST_AT_LEAST, version_of([compiler, "--version"], home))
    shutil.copytree(PROGRAMS / "rust", home / "sources")  # Cargo writes a lock file beside them
    protoc = home / "protoc"  # which the client's build runs, from the package that generates our own code
    protoc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n')
    protoc.chmod(0o755)
    built = home / "target"
    run_command(
        [compiler, "build", "--quiet", "--target-dir", str(built)], home / "sources", PROTOC=str(protoc), CARGO_INCREMENTAL="0"
    )
    shutil.move(built / "debug" / "probe", home / "probe")
    shutil.rmtree(built)


def _javascript(home: Path) -> None:
    npm = tool("npm", "npm")
    shutil.copy(PROGRAMS / "javascript" / "package.json", home)
    run_command([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"], home)


def _pythons() -> dict[str, Client]:
    clients = {}
    for version in (PYTHON_NOW, *PYTHON_BEFORE):
        home = None if version == PYTHON_NOW else INSTALLED / f"python-{version}"
        program = sys.executable if home is None else str(home / "bin" / "python")
        for suffix, module in (("", "probe"), (" asyncio", "probe_asyncio")):
            if suffix and version in PYTHON_WITHOUT_ASYNCIO:
                continue
            command = (program, "-m", f"tests.compat.clients.python.{module}")
            install = _nothing if home is None else _python(version)
            clients[f"Python {version}{suffix}"] = Client("python", command, home, install, "a wheel for this Python")
    return clients


_JAVA, _GO, _RUST, _JAVASCRIPT = (INSTALLED / name for name in ("java", "go", "rust", "javascript"))
_RUN_JAVA = ("java", "-Xmx512m", "-cp", f"{_JAVA}/classes:{_JAVA}/lib/*", "Probe")
_RUN_JAVASCRIPT = ("node", str(PROGRAMS / "javascript" / "probe.js"))
CLIENTS: dict[str, Client] = {
    **_pythons(),
    "Java 4.0.8": Client("java", _RUN_JAVA, _JAVA, _java, "maven and a JDK"),
    "Go 0.19.0": Client("go", (f"{_GO}/probe",), _GO, _go, "Go 1.24 or newer"),
    "Rust 6.9.1": Client("rust", (f"{_RUST}/probe",), _RUST, _rust, "Rust 1.85 or newer, from rustup"),
    "pulsar-flex 1.1.1": Client("javascript", _RUN_JAVASCRIPT, _JAVASCRIPT, _javascript, "nodejs and npm"),
}


def install_all() -> None:
    for name, client in CLIENTS.items():
        if client.ready or client.home is None:
            continue
        print(f"Installing the client {name}", flush=True)
        shutil.rmtree(client.home, ignore_errors=True)
        client.home.mkdir(parents=True)
        try:
            client.install(client.home)
        except (Missing, subprocess.TimeoutExpired) as error:
            print(f"  not installed: {error}", flush=True)
        else:
            (client.home / "made").write_text(_digest(client.sources))
