"""The supervisor: one thread that waits for signals, output of its children and the next deadline.

While idle it never wakes up. While a child is starting, it checks for readiness a hundred times a second, which costs one failing
`open` each time.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from controlplane.supervisor import lock as locks
from controlplane.supervisor import machine, status
from controlplane.supervisor import watchdog as watchdogs
from controlplane.supervisor.machine import Child, Effect, Event, State
from controlplane.supervisor.notices import ChildLog, notice, print_error, print_line
from controlplane.supervisor.plan import ChildSpec, Plan
from controlplane.supervisor.process import Process

_READINESS_POLL_S = 0.01
EXITS_KEPT = 10
_WRITE_AGAIN_S = 1.0  # after a file could not be written
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Member:
    """A child: its record in the state machine and its process."""

    def __init__(self, spec: ChildSpec, log: ChildLog) -> None:
        self.spec = spec
        self.process = Process(spec, os.environ, log)
        self.record = Child(spec.start_timeout_s, spec.stop_timeout_s, spec.meant_to_end)
        self.last_exit: int | None = None
        self.exits: deque[float] = deque(maxlen=EXITS_KEPT)  # when it ended unexpectedly, the last times
        self.since = time.time()


class Supervisor:
    """Runs a plan until SIGTERM, SIGINT or SIGHUP, or until a child cannot be started. `lock` is a descriptor of `lock.acquire`."""

    def __init__(self, plan: Plan, lock: int) -> None:
        self.plan = plan
        self.run_folder = Path(plan.data_dir, "run")
        logs = Path(plan.data_dir, "logs")
        for folder in (self.run_folder, logs):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.members = [Member(spec, ChildLog(logs, spec.name, plan.log_format, spec.quiet)) for spec in plan.children]
        self._by_name = {member.spec.name: member for member in self.members}
        self._lock = lock
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._announced_s: float | None = None
        self._exit_code = 0
        self._due: set[str] = {"status"}  # files to be written
        self._write_at_s = 0.0  # not before: the last try failed
        self._unwritten = ""  # why, while they cannot be
        for member in self.members:
            member.process.log.on_trouble = self._log_trouble

    def run(self) -> int:
        """Blocks until everything has stopped. Returns 0 after a signal, 2 for a configuration error, else 1."""
        self._watchdog = watchdogs.start((self._ready_file, self._status_file))
        locks.record(self._lock)
        self._remove(self._ready_file)
        for note in self.plan.notes:
            self._notice("warning", "reduced", note=note)
        wakeup = self._listen_to_signals()
        try:
            while not self._stopped():
                self._look_for_readiness()
                self._start_and_stop()  # after checking readiness, because another child may wait for it
                self._write_due()
                for key, _ in self._selector.select(self._pause_s()):
                    if key.data is None:
                        self._signals(os.read(wakeup, 4096))
                    elif not key.data.process.pump():
                        self._selector.unregister(key.fd)
                self._reap()
                self._deadlines()
        finally:
            self._wind_up()
        return self._exit_code

    # --- what continues ---

    def _start_and_stop(self) -> None:
        if self._stopping:
            left = [member for member in self.members if member.record.state not in (State.STOPPED, State.FAILED)]
            wave = min((member.spec.stop_wave for member in left), default=0)
            for member in left:
                waiting = member.record.state is State.BACKING_OFF
                if waiting or (member.spec.stop_wave == wave and member.record.state is not State.STOPPING):
                    self._apply(member, Event.STOP)
            return
        for member in self.members:
            idle = member.record.state is State.STOPPED and not member.record.done
            if idle and all(self._by_name[name].record.up for name in member.spec.after):
                self._apply(member, Event.START)

    def _look_for_readiness(self) -> None:
        for member in self.members:
            if member.record.state is State.STARTING and member.process.ready():
                self._apply(member, Event.READY)
        if self._announced_s is None and not self._stopping and all(member.record.up for member in self.members):
            self._announced_s = time.monotonic() - self.plan.started_s
            self._due.add("ready")
            print_line(status.greeting(self._readiness(), self._announced_s, self.plan.first_token_file))
            self._notice("info", "ready", seconds=round(self._announced_s, 2))

    def _reap(self) -> None:
        for member in self.members:
            code = member.process.exit_code()
            if code is None:
                continue
            event = machine.exit_event(member.record, code)
            output = member.process.output
            if output in self._selector.get_map():
                self._selector.unregister(output)
            member.process.reaped()
            self._watchdog.gone(member.process.pid)
            member.last_exit = code
            if event is Event.EXITED and not self._stopping:
                member.exits.append(time.time())
            self._apply(member, event)
            if event is Event.EXITED and member.record.state is State.BACKING_OFF:
                again_s = machine.backoff_s(member.record.failures)
                self._notice(
                    "error", "child-died", child=member.spec.name, exit=code, again_in_s=again_s, restarts=member.record.restarts
                )
            elif event is Event.HOPELESS:
                self._give_up(member, code)

    def _deadlines(self) -> None:
        now_s = time.monotonic()
        for member in self.members:
            if member.record.deadline_s is not None and now_s >= member.record.deadline_s:
                if member.record.state in (State.STARTING, State.STOPPING):
                    self._notice("error", "child-too-slow", child=member.spec.name, state=member.record.state.value)
                self._apply(member, Event.DUE)

    def _apply(self, member: Member, event: Event) -> None:
        before = member.record.state
        member.record, effects = machine.step(member.record, event, time.monotonic())
        if member.record.state is not before:
            member.since = time.time()
            self._due.add("status")
        for effect in effects:
            if effect is Effect.SPAWN:
                self._spawn(member)
            else:
                member.process.signal(signal.SIGTERM if effect is Effect.TERMINATE else signal.SIGKILL)

    def _spawn(self, member: Member) -> None:
        try:
            member.process.spawn()
        except OSError as error:
            member.process.log.last = [f"{member.spec.argv[0]}: {error.strerror}"]
            self._apply(member, Event.HOPELESS)
            self._give_up(member, 127)
            return
        self._watchdog.spawned(member.process.pid)
        self._selector.register(member.process.output, selectors.EVENT_READ, member)

    def _give_up(self, member: Member, code: int) -> None:
        """Stops the platform because a child cannot start, and prints the child's last output."""
        lines = member.process.log.last or ["it produced no output"]
        words = next((line for line in reversed(lines) if line.startswith("magnetar")), lines[-1])
        print_error(f"{member.spec.name} could not start (exit {code}): {re.sub('^magnetar[ a-z]*: ', '', words)}")
        self._exit_code = self._exit_code or (machine.EXIT_CONFIGURATION if code == machine.EXIT_CONFIGURATION else 1)
        self._stopping = True

    # --- signals, time and files ---

    def _listen_to_signals(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (*_SIGNALS, signal.SIGCHLD):
            signal.signal(number, _noted)
        self._selector.register(reader, selectors.EVENT_READ, None)
        return reader

    def _signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number not in _SIGNALS:
                continue
            if self._stopping and number == signal.SIGINT:
                self._notice("warning", "killing", why="a second interrupt")
                for member in self.members:
                    if member.process.exit_code() is None and member.process.output >= 0:
                        member.process.signal(signal.SIGKILL)
            elif not self._stopping:
                self._notice("info", "stopping", signal=signal.Signals(number).name)
                self._stopping = True

    def _pause_s(self) -> float | None:
        """How long to wait for signals or output; None for no limit."""
        waits = [member.record.deadline_s - time.monotonic() for member in self.members if member.record.deadline_s is not None]
        if any(member.record.state is State.STARTING for member in self.members):
            waits.append(_READINESS_POLL_S)
        if self._stopping and not waits:
            return 0.0
        if self._due:
            waits.append(self._write_at_s - time.monotonic())
        return max(0.0, min(waits)) if waits else None

    def _stopped(self) -> bool:
        return self._stopping and all(member.record.state in (State.STOPPED, State.FAILED) for member in self.members)

    def _write_due(self) -> None:
        """Writes the files that are due. If that fails (the disk is full), it is logged and retried."""
        if not self._due or time.monotonic() < self._write_at_s:
            return
        try:
            if "status" in self._due:
                status.publish(self._status_file, self.members, self._announced_s)
            if "ready" in self._due and not self._stopping:
                status.write_json(self._ready_file, self._readiness())
        except OSError as error:
            self._write_at_s = time.monotonic() + _WRITE_AGAIN_S
            if not self._unwritten:
                self._unwritten = f"{error.filename or self._status_file}: {error.strerror}"
                self._notice("error", "file-not-written", why=self._unwritten)
            return
        self._due.clear()
        if self._unwritten:
            self._notice("warning", "file-written-again", was=self._unwritten)
            self._unwritten = ""

    def _readiness(self) -> dict[str, Any]:
        return status.readiness(self.plan, {member.spec.name: member.process.answer for member in self.members})

    def _log_trouble(self, what: str) -> None:
        self._notice("error", "log-file", what=what)

    @staticmethod
    def _remove(path: Path) -> None:
        with suppress(OSError):
            path.unlink()

    @property
    def _ready_file(self) -> Path:
        return Path(self.plan.data_dir, "ready.json")

    @property
    def _status_file(self) -> Path:
        return self.run_folder / "supervisor.json"

    def _notice(self, level: str, event: str, **fields: object) -> None:
        notice(self.plan.log_format, level, event, **fields)

    def _wind_up(self) -> None:
        """Stops everything, also after an internal error."""
        for member in self.members:
            if member.process.exit_code() is None and member.process.output >= 0:
                member.process.signal(signal.SIGKILL)
            member.process.log.close()
        self._remove(self._ready_file)
        self._remove(self._status_file)
        self._watchdog.release()
        os.close(self._lock)
        self._notice("info", "stopped")


def _noted(number: int, frame: object) -> None:
    """The wake-up pipe tells the loop; this exists so that the signal does nothing else."""
