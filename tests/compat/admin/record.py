"""What a platform answers to the requests that `pulsar-admin` makes, chapter by chapter."""

from __future__ import annotations

import json
import shlex
import sys
import time
from operator import itemgetter
from pathlib import Path
from typing import Any

from tests.compat.admin.catalogue import Recording, keyed
from tests.compat.admin.plain import plain
from tests.compat.admin.proxy import Exchange, Proxy
from tests.compat.admin.steps import Stage
from tests.compat.admin.tool import AdminTool
from tests.compat.scenarios import Platform

_OPAQUE = ("/broker-stats/", "/brokers/configuration", "/brokers/internal-configuration", "/bookies/")
"""Of what lies below them only the kind of the answer is compared: it describes the machine."""


def record(chosen: dict[str, list[str]], platform: Platform, folder: Path) -> dict[str, Recording]:
    """Runs the chapters with Pulsar's tool."""
    proxy = Proxy(platform.web_url)
    tool = AdminTool(folder, proxy.url, platform.broker_url, platform.token)
    recorded: dict[str, Recording] = {}
    try:
        for chapter, steps in chosen.items():
            stage, started_s = Stage(platform, chapter), time.monotonic()
            try:
                for key, step in keyed(chapter, steps).items():
                    result = _run(stage, step, tool, proxy)
                    if result is not None:
                        recorded[key] = result
                sys.stdout.write(f"{chapter}: {len(steps)} steps in {time.monotonic() - started_s:.1f} s\n")
                sys.stdout.flush()
            finally:
                stage.close()
    finally:
        tool.close()
        proxy.close()
    return recorded


def _run(stage: Stage, step: str, tool: AdminTool, proxy: Proxy) -> Recording | None:
    if step.startswith("@http "):
        method, path, *rest = shlex.split(stage.filled(step[6:]))
        headers = dict(header.split(": ", 1) for header in rest[1:])
        exchange = stage.request(method, path, rest[0] if rest else "", **headers)
        sent = {name: value for name, value in headers.items() if name != "Content-Type"}
        return {"requests": [_written(stage, exchange) | ({"headers_sent": sent} if sent else {})]}
    if step.startswith("@"):
        stage.prepare(step)
        return None
    result = tool.run(shlex.split(stage.filled(step)))
    output = [stage.shown(line) for line in result.output.splitlines()]
    requests = [_written(stage, exchange) for exchange in proxy.take()]
    if all(request["do"].startswith("GET") for request in requests):
        requests.sort(key=itemgetter("do"))  # some are made side by side
    return {"exit": result.code, "output": output, "requests": requests}


def _written(stage: Stage, exchange: Exchange) -> dict[str, Any]:
    written: dict[str, Any] = {"do": f"{exchange.method} {stage.template(exchange.path)}"}
    if exchange.content_type.startswith("multipart/"):
        return written | {"content_type": "multipart/form-data"} | answered(stage, exchange)  # the body is of the tool
    if exchange.body:
        written["body"] = stage.template(_in_order(exchange.body))
    if exchange.body and exchange.content_type != "application/json":
        written["content_type"] = exchange.content_type
    return written | answered(stage, exchange)


def _in_order(text: str) -> str:
    """JSON with its keys sorted."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def answered(stage: Stage, exchange: Exchange) -> dict[str, Any]:
    """The part of an exchange that is compared."""
    if exchange.status >= 400:
        reason = exchange.answer.get("reason") if isinstance(exchange.answer, dict) else ""
        return {"status": exchange.status, "reason": stage.shown(reason or "")[:160]}
    opaque = any(part in exchange.path for part in _OPAQUE)
    key = "size" if exchange.path.endswith("/backlogSize") else ""
    answer = type(exchange.answer).__name__ if opaque else plain(exchange.answer, stage.names, key)
    told: dict[str, Any] = {"status": exchange.status, "answer": answer}
    if exchange.status < 300 and (exchange.answer is not None or exchange.answer_type):  # a type of nothing stops the tool
        told["type"] = exchange.answer_type.partition(";")[0]
    headers = {name.lower(): value for name, value in exchange.headers.items() if name.lower().startswith("x-pulsar-")}
    if headers:
        told["headers"] = {name: _header(name, stage.shown(value)) for name, value in sorted(headers.items())}
    return told


def _header(name: str, value: str) -> str:
    return "<text>" if name.endswith(("-time", "-producer-name", "-timestamp", "-batch-size")) else value
