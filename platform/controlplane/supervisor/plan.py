"""The children as data, so that the supervisor knows nothing about brokers and web servers."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class ChildSpec(NamedTuple):
    """One child.

    `ready_file`: JSON that the child writes when it serves; its "pid", if there, must be the child's, so that a file left by an
    earlier run does not count. `ready_socket`: a Unix socket that answers PING with +PONG. Neither: the child is meant to end, and
    its exit code 0 means done. `after`: children that must be up first. `stop_wave`: waves stop one after another, lowest first.
    `pins`: variable -> key of the ready file with a URL; a restart gets the port of that URL, so that a port chosen freely at the
    first start stays the port that clients know.
    """

    name: str
    argv: list[str]
    env: dict[str, str] = {}
    ready_file: str = ""
    ready_socket: str = ""
    after: list[str] = []
    stop_wave: int = 0
    start_timeout_s: float = 60.0
    stop_timeout_s: float = 3.0
    pins: dict[str, str] = {}
    quiet: bool = False  # its output goes only to its log file
    kill_on_orphan: bool = False  # needs no clean stop: SIGKILL instead of SIGTERM if the supervisor dies

    @property
    def meant_to_end(self) -> bool:
        return not (self.ready_file or self.ready_socket)


class Plan(NamedTuple):
    """`ready_from`: key of ready.json -> [child, key of its ready file]; a key the child did not write is left out.
    `ready_fixed`: the rest. `started_s`: when the command began, on the monotonic clock. `notes`: said once at start.
    `first_token_file`: holds the token that the program in the greeting needs; empty where anonymous clients may run it.
    """

    data_dir: str
    children: list[ChildSpec]
    ready_from: dict[str, list[str]] = {}
    ready_fixed: dict[str, str] = {}
    log_format: str = "json"
    started_s: float = 0.0
    notes: list[str] = []
    first_token_file: str = ""

    def to_json(self) -> str:
        return json.dumps(self._asdict() | {"children": [child._asdict() for child in self.children]})


def from_json(text: str) -> Plan:
    value: dict[str, Any] = json.loads(text)
    value["children"] = [ChildSpec(**child) for child in value["children"]]
    return Plan(**value)
