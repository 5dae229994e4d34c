"""The plan of `magnetar standalone`: its processes, their environment, when they are ready, and the order of stopping."""

from __future__ import annotations

import os
from urllib.parse import quote

import msgspec

from controlplane import bootstrap
from controlplane.child_process import environment, python
from controlplane.supervisor import valkey
from controlplane.supervisor.plan import ChildSpec, Plan
from messaging.local_caller import is_loopback
from messaging.settings import BROKERS_MAX, Settings

# Stop order: callers first, then what they call. All waves together take less than ten seconds.
_WAVE_CALLERS, _WAVE_BROKER, _WAVE_VALKEY = 0, 1, 2
_STOP_CALLERS_S, _STOP_BROKER_S, _STOP_VALKEY_S = 3.5, 5.0, 1.0

CONSOLE_USER = "admin"
# To end what changes a large database, or reads a log without its index, would have it begin again, for ever.
_PREPARE_S_MAX = 24 * 3600.0
_BROKER_START_S_MAX = 3600.0
_START_S_MAX = 180.0  # of the others, on a machine that is very busy


def log_format(settings: Settings) -> str:
    if settings.log_format != "auto":
        return settings.log_format
    return "console" if os.isatty(2) else "json"


def needs_preparation(settings: Settings) -> bool:
    """Whether the database may lack migrations. Makes the tables of a new SQLite file; does not load Django."""
    return not bootstrap.create_tables(settings)


def with_brokers_for(settings: Settings, processors: int) -> Settings:
    """A broker for each processor, and at least as many as have stored something: no other can serve what is in their logs."""
    stored = [int(path.name.rpartition("-")[2]) for path in settings.data_path.glob("broker-[1-9]*") if path.name[7:].isdecimal()]
    return msgspec.structs.replace(settings, brokers=min(max(processors, *stored, 1), BROKERS_MAX))


def _broker(settings: Settings, number: int) -> ChildSpec:
    """The first one is called as the only one would be, and has its ports; the others follow it. Own ports that are not free ones
    are consecutive."""
    of_number = msgspec.structs.replace(
        settings,
        broker_number=number,
        broker_own_port=settings.broker_own_port and settings.broker_own_port + number - 1,
        broker_own_tls_port=settings.broker_own_tls_port and settings.broker_own_tls_port + number - 1,
    )
    if number > 1:
        broker_id = f"{settings.broker_id.removesuffix('-1')}-{number}"
        of_number = msgspec.structs.replace(of_number, broker_id=broker_id, ws_port=0, broker_rpc_port=0)
    name = of_number.broker_path.name
    pins = {
        "MAGNETAR_BROKER_PORT": "broker_url",
        "MAGNETAR_BROKER_TLS_PORT": "broker_url_tls",
        "MAGNETAR_WS_PORT": "ws_url",
        "MAGNETAR_BROKER_RPC_PORT": "rpc_url",
    }
    if settings.brokers > 1:
        pins |= {"MAGNETAR_BROKER_OWN_PORT": "own_url", "MAGNETAR_BROKER_OWN_TLS_PORT": "own_url_tls"}
    return ChildSpec(
        name,
        python("messaging.broker"),
        _environment(of_number),
        ready_file=str(of_number.broker_run_file),
        after=[] if number == 1 else ["broker"],
        stop_wave=_WAVE_BROKER,
        start_timeout_s=_BROKER_START_S_MAX,
        stop_timeout_s=_STOP_BROKER_S,
        pins=pins,
    )


def _environment(settings: Settings) -> dict[str, str]:
    return environment(settings) | {"MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2")}


def make_plan(settings: Settings, started_s: float, *, prepare: bool = True) -> Plan:
    """`prepare`: whether the database needs its migrations before web and worker start."""
    settings = msgspec.structs.replace(settings, log_format=log_format(settings), data_dir=str(settings.data_path.absolute()))
    data = settings.data_path
    run = data / "run"
    run.mkdir(mode=0o700, exist_ok=True)
    notes: list[str] = []
    children: list[ChildSpec] = []
    server = None if settings.redis_url else valkey.binary()
    if server is not None:
        socket = valkey.socket_path(data)
        settings = msgspec.structs.replace(settings, redis_url=f"redis+socket://{quote(str(socket))}")
        children.append(
            ChildSpec(
                "valkey",
                valkey.command(server, socket),
                ready_socket=str(socket),
                stop_wave=_WAVE_VALKEY,
                stop_timeout_s=_STOP_VALKEY_S,
                quiet=True,  # it warns about kernel settings that matter only if it saves to disk, which ours does not
                kill_on_orphan=True,
            )
        )
    elif not settings.redis_url:
        notes.append(valkey.NOTE_WITHOUT)
    env = _environment(settings)
    first = ["prepare"] if prepare else []
    if prepare:
        children.append(
            ChildSpec(
                "prepare", python("controlplane.bootstrap"), env, start_timeout_s=_PREPARE_S_MAX, stop_timeout_s=_STOP_CALLERS_S
            )
        )
    children += [_broker(settings, number) for number in range(1, settings.brokers + 1)]
    children += [
        ChildSpec(
            "web",
            python("controlplane.web"),
            env,
            ready_file=str(run / "web.json"),
            after=first,
            stop_wave=_WAVE_CALLERS,
            start_timeout_s=_START_S_MAX,
            stop_timeout_s=_STOP_CALLERS_S,
            pins={"MAGNETAR_WEB_PORT": "web_url"},
        ),
        ChildSpec(
            "worker",
            python("controlplane.worker"),
            env,
            ready_file=str(run / "worker.json"),
            after=[*first, *(["valkey"] if server is not None else [])],
            stop_wave=_WAVE_CALLERS,
            start_timeout_s=_START_S_MAX,
            stop_timeout_s=_STOP_CALLERS_S,
        ),
    ]
    token_file = str(data / "secrets" / "superuser.token")
    anonymous = settings.anonymous_public and is_loopback(settings.host)
    return Plan(
        data_dir=str(data),
        children=children,
        ready_from={
            "broker_url": ["broker", "broker_url"],
            "broker_url_tls": ["broker", "broker_url_tls"],  # only with TLS
            "web_url": ["web", "web_url"],
            "ws_url": ["broker", "ws_url"],
        },
        ready_fixed={
            "admin_token_file": token_file,
            "console_user": CONSOLE_USER,
            "console_password_file": str(data / "secrets" / "console-password"),
        },
        log_format=settings.log_format,
        started_s=started_s,
        notes=notes,
        first_token_file="" if anonymous else token_file,
    )
