"""The units: accepted by systemd, as locked up as they say, and their settings are those that the platform knows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from messaging.settings import load

UNITS = ("magnetar", "magnetar-broker", "magnetar-web", "magnetar-worker")
EXPOSURE_MAX = 15  # tenths; systemd calls less than 20 OK


@pytest.fixture(scope="module")
def units(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with the units where they are installed, and a program where they look for one."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine: apt-get install systemd")
    root = tmp_path_factory.mktemp("root")
    shutil.copytree("/usr/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
    installed, program = root / "etc/systemd/system", root / "opt/magnetar/bin/magnetar"
    for folder in (installed, program.parent):
        folder.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name in UNITS:
        shutil.copy(repository / "deploy" / "systemd" / f"{name}.service", installed)
    return root


def verified(root: Path, name: str) -> str:
    """What systemd has against the unit; nothing: it takes it as it is."""
    command = ["systemd-analyze", "verify", f"--root={root}", "--man=no", name]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in lines if "magnetar" in line)


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_it_as_it_is(units: Path, name: str) -> None:
    assert verified(units, f"{name}.service") == ""


def test_systemd_would_say_what_is_wrong(units: Path) -> None:
    path = units / "etc/systemd/system/magnetar-broken.service"
    path.write_text((path.parent / "magnetar.service").read_text().replace("UMask=0077", "UMaks=0077"))
    assert "UMaks" in verified(units, path.name)


@pytest.mark.parametrize("name", UNITS)
def test_it_is_locked_up(units: Path, name: str) -> None:
    command = ["systemd-analyze", "security", f"--root={units}", "--offline=true", f"--threshold={EXPOSURE_MAX}", f"{name}.service"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_they_start_commands_of_ours_and_give_them_time_to_stop(repository: Path) -> None:
    for name, command, stop_s in zip(UNITS, ("standalone", "broker", "web", "worker"), (20, 20, 10, 10), strict=True):
        text = (repository / "deploy" / "systemd" / f"{name}.service").read_text()
        assert f"\nExecStart=/opt/magnetar/bin/magnetar {command}\n" in text
        assert f"\nTimeoutStopSec={stop_s}\n" in text and "\nRestartPreventExitStatus=2\n" in text


def test_examples_of_settings_are_valid(repository: Path) -> None:
    folder = repository / "deploy" / "systemd"
    alone = load({"MAGNETAR_CONFIG": str(folder / "magnetar.toml")})
    assert alone.tls == "self-signed" and alone.client_host == "magnetar.example.com"
    urls = dict(re.findall(r"^(MAGNETAR_\w+)=(.*)$", (folder / "environment").read_text(), re.MULTILINE))
    fleet = load({"MAGNETAR_CONFIG": str(folder / "fleet.toml"), **urls})
    assert fleet.shared_storage and fleet.internal_tls and fleet.redis_url and fleet.database_url
    assert f"https://{fleet.client_host}:{fleet.broker_rpc_port}" in fleet.broker_rpc_urls
