"""Checks of the platform that runs in the data directory: processes, memory, readiness and start time."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from controlplane.doctor.checks import Finding
from controlplane.supervisor.lock import alive
from controlplane.supervisor.status import running_state
from messaging.settings import Settings

IDLE_MIB = 250.0  # that all processes take together before they are used; what the broker may buffer comes on top of it
START_BUDGET_S = 8.0
_TIMEOUT_S = 3.0
_SILENT = f"no answer within {_TIMEOUT_S:.0f} s"
_METRICS_BYTES_MAX = 4 << 20
_DAMAGE = re.compile(r'^magnetar_storage_damage_total\{during="([^"]*)"\} ([0-9.e+]+)$', re.MULTILINE)
_TURNED_AWAY = re.compile(r"^magnetar_http_(\w+)_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)
_WHY_TURNED_AWAY = {
    "connections_turned_away": "connections refused",
    "connections_unread": "connections closed because they did not read responses",
    "requests_turned_away": "requests refused with 503",
    "bodies_turned_away": "requests with bodies refused with 503",
}
_FAILING = re.compile(r'^magnetar_background_failing\{loop="([^"]*)"\} ([0-9.]+)$', re.MULTILINE)


def proportional_mib(pid: int) -> float:
    """Proportional set size of a process: its private pages and its share of shared ones. Raises `OSError`."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def family(pid: int) -> list[int]:
    """`pid` and all its descendants."""
    pids = [pid]
    try:
        listing = "".join(task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return pids
    return pids + [below for child in listing.split() for below in family(int(child))]


def memory_mib(state: dict[str, Any]) -> dict[str, float]:
    """MiB (proportional) by child, with what each child started, and of the supervisor with its watchdog."""
    by_name: dict[str, float] = {}
    children = {child["pid"]: child["name"] for child in state["children"] if child["state"] not in ("done", "stopped")}
    for pid in family(state["pid"]):
        owner = next((children[root] for root in children if pid in family(root)), "supervisor")
        try:
            by_name[owner] = by_name.get(owner, 0.0) + proportional_mib(pid)
        except OSError:
            continue
    return by_name


def running(settings: Settings) -> Iterator[Finding]:
    state = running_state(settings.data_path)
    if state is None:
        yield from _services(settings)
        return
    names = {child["name"]: child for child in state["children"]}
    down = {name: child["state"] for name, child in names.items() if child["state"] not in ("ready", "done")}
    pids = ", ".join(f"{name} {child['pid']}" for name, child in names.items() if child["state"] == "ready")
    if down:
        says = ", ".join(f"{name} is {state}" for name, state in down.items())
        yield Finding("Platform", "fail", f"supervisor {state['pid']}: {says}", f"see the logs in {settings.data_path / 'logs'}")
    else:
        yield Finding("Platform", "ok", f"supervisor {state['pid']}: {pids}")
    restarted = {name: child["restarts"] for name, child in names.items() if child["restarts"]}
    if restarted:
        says = ", ".join(f"{name} {'once' if count == 1 else f'{count} times'}" for name, count in restarted.items())
        yield Finding("Restarts", "warn", f"{says} since the start", f"look for child-died in {settings.data_path / 'logs'}")
    yield from _readiness(settings, dict.fromkeys((*names, "web")))
    yield from _start(state)
    if by_name := memory_mib(state):
        yield memory_finding(by_name, settings)


def _services(settings: Settings) -> Iterator[Finding]:
    """Processes that were started one by one, as by systemd: each notes itself in run/, and takes that away when it stops."""
    pids: dict[str, int] = {}
    for path in sorted((settings.data_path / "run").glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            pids[path.stem] = int(json.loads(path.read_bytes())["pid"])
    pids.pop("supervisor", None)  # it was killed: its processes have ended with it
    running = {name: pid for name, pid in pids.items() if alive(pid)}
    if not running:
        yield Finding("Platform", "ok", "not running in this data directory")
        return
    yield Finding("Platform", "ok", f"without a supervisor: {', '.join(f'{name} {pid}' for name, pid in running.items())}")
    if ended := [name for name in pids if name not in running]:
        do = f"see its log and start it; if it is not to run here, remove its file in {settings.data_path / 'run'}"
        yield Finding("Platform", "fail", f"ended and did not say so, as after a kill: {', '.join(ended)}", do)
    yield from _readiness(settings, running)


def _readiness(settings: Settings, processes: Iterable[str]) -> Iterator[Finding]:
    """`processes`: their names; of workers there is nothing to ask."""
    for what in (name for name in processes if name.partition("-")[0] in ("broker", "web")):
        key = "web_url" if what == "web" else "ws_url"
        try:
            announced = json.loads((settings.data_path / "run" / f"{what}.json").read_bytes())
            url, pid = announced[key], announced.get("pid", "")
        except (OSError, ValueError, KeyError):
            continue
        url = url.replace("ws://", "http://", 1).replace("wss://", "https://", 1).rstrip("/") + "/readyz"
        problem = _ask(url, settings)
        if problem:
            do = f"see {settings.data_path / 'logs' / what}.log"
            if problem == _SILENT:
                do = f"if that stays so, it hangs: end process {pid} (kill -9), and whoever started it does so again; {do}"
            yield Finding(f"Readiness of {what}", "fail", f"{url}: {problem}", do)
        else:
            yield Finding(f"Readiness of {what}", "ok", url)
            yield from _by_metrics(what, url.removesuffix("/readyz") + "/metrics", settings)


def _by_metrics(what: str, url: str, settings: Settings) -> Iterator[Finding]:
    try:
        text = _get(url, settings, _METRICS_BYTES_MAX)
    except OSError as error:
        yield Finding(
            f"HTTP of {what}" if what == "web" else _of("Background loops", what),
            "warn",
            f"{url}: {error}",
            "try again in a few seconds",
        )
        return
    if what != "web":
        log = settings.data_path / "logs" / f"{what}.log"
        yield background_finding(text, log, what)
        yield storage_finding(text, log, what)
    yield http_listeners(what, text)


def http_listeners(what: str, metrics: str) -> Finding:
    """Whether connections or requests were refused for lack of capacity."""
    counts: dict[str, int] = {}
    for name, value in _TURNED_AWAY.findall(metrics):
        counts[name] = counts.get(name, 0) + int(float(value))
    says = ", ".join(f"{counts[name]} {_WHY_TURNED_AWAY[name]}" for name in _WHY_TURNED_AWAY if counts.get(name))
    if says:
        return Finding(
            f"HTTP of {what}",
            "warn",
            f"since the start: {says}",
            "see magnetar_http_* in its /metrics; consider raising http_*_max",
        )
    return Finding(f"HTTP of {what}", "ok", "no connections or requests were refused")


def storage_finding(text: str, log: Path, broker: str = "broker") -> Finding:
    """Whether stored data could be read."""
    title, damage = (
        _of("Stored data", broker),
        {during: int(float(count)) for during, count in _DAMAGE.findall(text) if float(count)},
    )
    if not damage:
        return Finding(title, "ok", "no unreadable data since the start")
    says = ", ".join(f"{count} times in {during}" for during, count in sorted(damage.items()))
    todo = f"see docs/operating-the-log.md, and look for damage in {log}"
    return Finding(title, "fail", f"unreadable and skipped since the start: {says}", todo)


def background_finding(text: str, log: Path, broker: str = "broker") -> Finding:
    """The broker's background loops."""
    title, loops = _of("Background loops", broker), _FAILING.findall(text)
    failing = sorted(loop for loop, value in loops if float(value))
    if failing:
        return Finding(title, "fail", f"failing: {', '.join(failing)}", f"look for background.failed in {log}")
    return Finding(title, "ok", f"all {len(loops)} are working")


def _of(title: str, broker: str) -> str:
    """Named after its broker where it is not the only or the first one."""
    return title if broker == "broker" else f"{title} of {broker}"


def _ask(url: str, settings: Settings) -> str:
    """Empty if `url` returns 200, else the problem."""
    try:
        _get(url, settings, 0)
        return ""
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(300).decode(errors='replace').strip()}"
    except OSError as error:
        silent = isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)
        return _SILENT if silent else str(error)


def _get(url: str, settings: Settings, bytes_max: int) -> str:
    """Raises `OSError`, of which `HTTPError` is one."""
    import ssl

    context = None
    if url.startswith("https"):
        from messaging.tls import certificate_files

        context = ssl.create_default_context(cafile=str(certificate_files(settings).certificate))
        context.check_hostname = False  # we call ourselves, whatever name the certificate has
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S, context=context) as response:
        return str(response.read(bytes_max).decode(errors="replace"))


def _start(state: dict[str, Any]) -> Iterator[Finding]:
    ready_s = state.get("ready_s")
    if ready_s is None:
        yield Finding("Start", "warn", "not all processes are ready yet", "try again in a few seconds")
    elif ready_s > START_BUDGET_S:
        yield Finding(
            "Start",
            "warn",
            f"took {ready_s:.1f} s; {START_BUDGET_S:.0f} s is the budget for a first start",
            "check whether the machine is busy",
        )
    else:
        yield Finding("Start", "ok", f"took {ready_s:.1f} s")


def memory_finding(by_name: dict[str, float], settings: Settings) -> Finding:
    """`by_name`: MiB of each process. A platform in use may take what is set for it; an idle one takes far less."""
    total, limit = sum(by_name.values()), IDLE_MIB + settings.memory_budget_bytes / (1 << 20)
    parts = ", ".join(f"{name} {mib:.0f}" for name, mib in sorted(by_name.items(), key=lambda item: -item[1]))
    says = f"{total:.0f} MiB proportional ({parts})"
    if total <= limit:
        return Finding("Memory", "ok", says)
    budget = f"{IDLE_MIB:.0f} of an idle platform and {limit - IDLE_MIB:.0f} of memory_budget_bytes"
    return Finding(
        "Memory", "warn", f"{says}; {limit:.0f} are expected at most: {budget}", "look at which process it is, and report it"
    )
