"""The recorded requests, sent to a platform without Pulsar's tool, and where its answers differ."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.compat.admin.catalogue import Recording, keyed
from tests.compat.admin.plain import differences
from tests.compat.admin.record import answered
from tests.compat.admin.steps import Stage
from tests.compat.scenarios import Platform
from tests.support.waiting import eventually_sync

Found = dict[str, list[str]]
"""Key of a step -> its differences."""
_AT_ONCE = 4
_PATIENCE_S = 2.0  # acknowledgements and figures are on their way


def replay(chosen: dict[str, list[str]], recorded: dict[str, Recording], platform: Platform, hopeless: set[str]) -> Found:
    """Chapters side by side. For steps of `hopeless` nothing is waited for."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="chapter") as pool:
        futures = [pool.submit(_chapter, name, steps, recorded, platform, hopeless) for name, steps in chosen.items()]
        return {key: differing for future in futures for key, differing in future.result().items()}


def _chapter(chapter: str, steps: list[str], recorded: dict[str, Recording], platform: Platform, hopeless: set[str]) -> Found:
    stage = Stage(platform, chapter)
    differing: Found = {}
    try:
        for key, step in keyed(chapter, steps).items():
            if step.startswith("@") and not step.startswith("@http "):
                stage.prepare(step)
            elif key in recorded:
                requests = recorded[key]["requests"]
                differing[key] = [difference for wanted in requests for difference in _request(stage, wanted, key in hopeless)]
    finally:
        stage.close()
    return differing


def _request(stage: Stage, wanted: dict[str, Any], hopeless: bool) -> list[str]:
    method, _, path = wanted["do"].partition(" ")
    headers = {"Content-Type": wanted.get("content_type", "application/json"), **wanted.get("headers_sent", {})}
    differing: list[str] = []

    def same() -> bool:
        exchange = stage.request(method, stage.filled(path), stage.filled(wanted.get("body", "")), **headers)
        differing[:] = _differences(wanted, answered(stage, exchange))
        return not differing or hopeless or method != "GET"

    try:
        eventually_sync(same, _PATIENCE_S)
    except AssertionError:
        pass  # `differing` says it better
    return [f"{wanted['do']}: {difference}" for difference in differing]


def _differences(wanted: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    if wanted["status"] != ours["status"]:
        said = [f"{reply['status']} {reply.get('reason', reply.get('answer'))!s:.300}" for reply in (ours, wanted)]
        return [f"status {said[0]} instead of {said[1]}"]
    if wanted["status"] >= 400:
        return [] if ours["reason"] else ["an error without a reason"]
    differing = differences(wanted["answer"], ours["answer"], "answer")
    of_message = "x-pulsar-message-id" in wanted.get("headers", {})  # then its type is what was asked for
    if wanted.get("type") != ours.get("type") and not of_message:
        differing.append(f"content type {ours.get('type')} instead of {wanted.get('type')}")
    return differing + differences(wanted.get("headers", {}), ours.get("headers", {}), "headers")
