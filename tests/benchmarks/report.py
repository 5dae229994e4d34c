"""What a run measured, as JSON for comparing and as a page for reading."""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

_FLOORS = {
    "sync_4kib_p50_ms": "4 KiB made durable (fdatasync, preallocated), p50, ms",
    "durable_sequential_mib_per_s": "durable sequential writing, MiB/s, median of writes of 1, 4 and 8 MiB",
    "loopback_ping_pong_p50_ms": "loopback ping-pong, p50, ms",
    "memory_copy_gib_per_s": "memory copy, GiB/s",
}


def stamp(result: dict[str, Any]) -> dict[str, Any]:
    """`result` with when and on what it was measured."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    return {"measured": now, "machine": machine, **result}


def write(result: dict[str, Any], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    name = result["benchmark"]
    as_json, page = folder / f"{name}.json", folder / f"{name}.md"
    as_json.write_text(json.dumps(result, indent=2) + "\n")
    page.write_text(markdown(result))
    return [as_json, page]


def markdown(result: dict[str, Any]) -> str:
    machine = result["machine"]
    lines = [
        f"# Benchmark: {result['benchmark']}",
        "",
        f"Measured {result['measured']} on {machine['cores']} cores shared with the load generator, {machine['system']}, "
        f"Python {machine['python']}, hot loops: {result['hot_loops']}. Every receipt is sent after its sync. "
        "`magnetar bench` repeats it; figures of machines whose floors differ do not compare.",
        "",
        f"The broker takes traffic {result['broker_start_s']:.2f} s after its start and holds "
        f"{result['resident_mib_after']:.0f} MiB after all of this.",
        "",
        "| floor, measured in the same run | |",
        "| --- | --- |",
        *(f"| {text} | {result['floors'][key]:.3f} |" for key, text in _FLOORS.items()),
        "",
        "| load | messages/s | MiB/s | of the sequential floor | receipt p50 / p99 ms | delivery p50 / p99 ms "
        "| broker CPU-s a million | broker cores | generator cores | resident MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in result["cases"]:
        delivery = f"{case['delivery_p50_ms']} / {case['delivery_p99_ms']}" if "delivery_p50_ms" in case else ""
        ratio = case.get("receipt_p50_ratio_to_floor")
        floor = f" ({ratio} x sync + ping-pong)" if ratio else ""
        lines.append(
            f"| {case['case']} | {case['messages_per_s']:,} | {case['mib_per_s']} | {case['ratio_to_sequential_floor']:.1%} "
            f"| {case['receipt_p50_ms']} / {case['receipt_p99_ms']}{floor} | {delivery} | {case['broker_cpu_s_per_million']} "
            f"| {case['broker_cores']} | {case['generator_cores']} | {case['resident_mib']} |"
        )
    return "\n".join(lines) + "\n"
