"""What a person can get wrong on the command line: one clear line, exit code 2, no traceback, nothing left running."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli import main
from controlplane.supervisor import lock
from tests.controlplane.cli.command_line import magnetar, refused


@pytest.fixture
def taken_port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    yield listener.getsockname()[1]
    listener.close()


def test_help_is_light() -> None:
    """`magnetar --help` answers within 0.2 s because it loads nothing that a command needs."""
    heavy = {"django", "msgspec", "structlog", "asyncio", "celery", "jwt"}
    script = f"import sys, controlplane.cli; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    text = magnetar("--help").stdout
    for command in ("standalone", "broker", "web", "worker", "bench", "doctor", "log", "version"):
        assert f"\n  {command} " in text


def test_version(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert magnetar("version").stdout.strip() == project["version"]


@pytest.mark.parametrize(("missing", "package"), [("numpy", "numpy"), ("pulsar", "pulsar-client")])
def test_a_package_that_benchmarks_lack_is_named(monkeypatch: pytest.MonkeyPatch, missing: str, package: str) -> None:
    """It said that the benchmarks are only in a source checkout, in a source checkout."""

    def run(arguments: list[str]) -> int:
        raise ModuleNotFoundError(f"No module named '{missing}.inner'", name=f"{missing}.inner")

    module = types.ModuleType("tests.benchmarks.run")
    module.main = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests.benchmarks.run", module)
    result = CliRunner().invoke(main, ["bench"])
    assert result.exit_code == 2
    assert f"the benchmarks need the package {package}, which is not installed" in result.output


def test_benchmarks_without_their_sources_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.benchmarks.run", None)
    result = CliRunner().invoke(main, ["bench"])
    assert "only in a source checkout" in result.output


@pytest.mark.parametrize("command", ["standalone", "broker", "web", "worker", "doctor"])
def test_an_unknown_variable_is_named(command: str, tmp_path: Path) -> None:
    line = refused(magnetar(command, "--data-dir", str(tmp_path / "data"), MAGNETAR_BROKER_PROT="7000"))
    assert line == "environment variable MAGNETAR_BROKER_PROT is not a setting: did you mean MAGNETAR_BROKER_PORT?"
    assert not (tmp_path / "data").exists()


def test_an_impossible_value_is_named_with_where_it_was_given(tmp_path: Path) -> None:
    line = refused(magnetar("standalone", "--data-dir", str(tmp_path), "--broker-port", "70000"))
    assert "broker_port = '70000' (in --broker-port)" in line
    assert "tls = 'maybe' (in MAGNETAR_TLS)" in refused(magnetar("web", MAGNETAR_TLS="maybe"))


def test_a_broken_configuration_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "magnetar.toml"
    file.write_text("web_port = \n")
    assert f"configuration file {file} is not valid TOML" in refused(magnetar("standalone", MAGNETAR_CONFIG=str(file)))
    file.write_text("web_prot = 1\n")
    assert f"key 'web_prot' in {file} is not a setting: did you mean web_port?" in refused(
        magnetar("web", MAGNETAR_CONFIG=str(file))
    )


@pytest.mark.parametrize("command", ["standalone", "broker", "web", "worker"])
def test_a_data_directory_that_cannot_be_written(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    line = refused(magnetar(command, "--data-dir", str(file / "data")))
    assert f"the data directory {file / 'data'} is not writable (part of its path is not a directory): choose another with" in line
    if Path("/proc").is_dir():
        assert "is not writable" in refused(magnetar(command, "--data-dir", "/proc/magnetar"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: the capabilities of root are laid down")
def test_a_data_directory_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    result = magnetar("standalone", "--data-dir", str(tmp_path), lay_down=_as_anybody)
    assert "is not writable (Permission denied)" in refused(result)


def _as_anybody() -> None:
    """In the child: root without CAP_DAC_OVERRIDE (1) obeys permissions like everybody (PR_CAPBSET_DROP is 24)."""
    if os.geteuid() == 0:
        assert ctypes.CDLL(None, use_errno=True).prctl(24, 1, 0, 0, 0) == 0


@pytest.mark.parametrize(
    ("command", "option", "what"),
    [
        ("standalone", "--broker-port", "clients"),
        ("standalone", "--web-port", "console and REST"),
        ("standalone", "--ws-port", "WebSocket"),
        ("broker", "--broker-port", "clients"),
        ("web", "--web-port", "console and REST"),
    ],
)
def test_a_port_in_use_says_which_and_who_and_what_to_do(
    command: str, option: str, what: str, taken_port: int, tmp_path: Path
) -> None:
    others = [name for name in ("--broker-port", "--ws-port", "--web-port") if name != option]
    allowed = {"standalone": others, "broker": [name for name in others if name != "--web-port"], "web": []}[command]
    arguments = [part for name in allowed for part in (name, "0")]
    line = refused(magnetar(command, "--data-dir", str(tmp_path), option, str(taken_port), *arguments))
    assert line.startswith(f"port {taken_port} ({what}) on 127.0.0.1 is in use by ")
    assert f"(process {os.getpid()})" in line
    assert line.endswith(f"stop that process, or choose another port with {option} (0 picks a free one)")


def test_a_port_configured_for_two_listeners_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    line = refused(magnetar("standalone", "--data-dir", str(tmp_path), "--broker-port", port, "--web-port", port, "--ws-port", "0"))
    assert line == f"port {port} is configured for both clients and console and REST: choose another with --web-port"


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    line = refused(magnetar("broker", "--data-dir", str(tmp_path), "--host", "192.0.2.1", "--broker-port", "16650"))
    assert "cannot be opened on 192.0.2.1: this machine has no such address" in line


def test_a_second_instance_on_the_same_data_directory(tmp_path: Path) -> None:
    descriptor = lock.acquire(str(tmp_path))
    try:
        line = refused(
            magnetar("standalone", "--data-dir", str(tmp_path), "--broker-port", "0", "--web-port", "0", "--ws-port", "0")
        )
    finally:
        os.close(descriptor)
    assert line.startswith(f"the data directory {tmp_path} is in use by process {os.getpid()}: stop it first")


def test_a_certificate_that_is_not_there(tmp_path: Path) -> None:
    line = refused(magnetar("broker", "--data-dir", str(tmp_path), MAGNETAR_TLS="files"))
    assert line == "tls = 'files' needs tls_cert_file and tls_key_file: set both, or use tls = 'self-signed'"


def test_what_machines_of_a_fleet_have_in_common_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    made = magnetar("keys", "make-fleet", str(folder))
    assert made.returncode == 0 and f"copy {folder}/secrets into the data directory of each machine" in made.stdout
    assert (folder / "tls" / "broker.pem").exists() and (folder / "secrets" / "superuser.token").exists()
    assert refused(magnetar("keys", "make-fleet", str(folder))).startswith(f"{folder}/tls/authority.pem exists: choose an empty")
    (tmp_path / "file").touch()
    assert "cannot be written" in refused(magnetar("keys", "make-fleet", str(tmp_path / "file")))
