"""Requests and answers without what differs from run to run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Fields whose value depends on the machine, the moment or the encoding; compared by type and sign.
_SIGN_ONLY = re.compile(
    r"(Size|size|Throughput\w*|Rate\w*|bytes\w*|BytesIn|memory|averageMsgSize|[Tt]ime[Ss]tamp|connectedSince|timestamp|Ms|\w*Bytes\w*"
    r"|messagesConsumedCounter|cursorLedger|availablePermits|lastPublishTimeStamp|\w*AgeSeconds|producerId"
    r"|\w*PublishTime\w*|scanned\w*|elapsed\w*)$"
)
_TEXT_ONLY = re.compile(
    r"(address|clientVersion|ownerBroker|brokerUrl\w*|httpUrl\w*|nativeUrl|serviceUrl\w*|brokerId|brokerServiceUrl\w*|requestId"
    r"|connectedSince|producerName|consumerName|request_id"
    r"|activeConsumerName|metadata)$"
)
_KIND_ONLY = re.compile(
    r"averageMsgSize|earliestMsgPublishTimeInBacklogs?|oldestBacklogMessageAgeSeconds|cursorLedgerLastEntry"
    r"|msgRate\w+|msgThroughput\w+|messageAckRate|chunkedMessageRate|msgDropRate"
)
"""Numbers that Pulsar tells only when asked, or after a minute, and we always; and where a cursor is in its ledger."""
_NO_VALUES: tuple[Any, ...] = ("", None)
_POSITION = re.compile(r"\b\d+:(-?\d+)\b")
_BUNDLE = re.compile(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:?\d\d)?")
_MILLISECONDS = re.compile(r"\b1[6-9]\d{11}\b")
_OTHER_RUN = re.compile(r"\b[a-z-]+-[0-9a-f]{8}\b")


def plain(value: Any, names: Mapping[str, str], key: str = "") -> Any:
    """`value` with the names of this run replaced (name -> placeholder), and with classes in place of what varies."""
    if isinstance(value, dict):
        if "creationDate" in value and "version" in value:
            value = {**value, "version": "<number>"}  # of a stored record: how often it was written
        return {plain_text(field, names): plain(content, names, field) for field, content in sorted(value.items())}
    if isinstance(value, list):
        items = [plain(item, names, key) for item in value]
        if not all(isinstance(item, str) for item in items):
            return items
        return sorted(item for item in items if not _OTHER_RUN.search(item))
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return _number(value, key)
    if _TEXT_ONLY.search(key) and value:
        return "<text>"
    return plain_text(value, names)


def _number(value: float, key: str) -> Any:
    if _KIND_ONLY.fullmatch(key):
        return "<number>"
    if key in ("ledgerId", "cursorsLedgerId") or _SIGN_ONLY.search(key) or value > 10**12:
        return "<positive>" if value > 0 else "<zero>" if value == 0 else "<negative>"
    return int(value) if value == int(value) else value


def plain_text(text: str, names: Mapping[str, str]) -> str:
    for name, placeholder in names.items():
        text = text.replace(name, placeholder)
    text = _BUNDLE.sub("<bundle>", _TIME.sub("<time>", text))
    return _MILLISECONDS.sub("<ms>", _POSITION.sub(r"<ledger>:\1", text))


def differences(theirs: Any, ours: Any, at: str = "") -> list[str]:
    """Where ours is not theirs. Fields that only ours has do not count, as stock clients skip them, unless they have no value:
    where there is none, a field is absent."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        differing = [f"{at}.{key} is missing" for key in theirs if key not in ours]
        differing += [f"{at}.{key} is there without a value" for key in ours if key not in theirs and ours[key] in _NO_VALUES]
        return differing + [
            difference for key in theirs if key in ours for difference in differences(theirs[key], ours[key], f"{at}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [
            difference
            for index, pair in enumerate(zip(theirs, ours, strict=True))
            for difference in differences(*pair, f"{at}[{index}]")
        ]
    return [] if theirs == ours else [f"{at} is {str(ours)[:200]!r} instead of {str(theirs)[:200]!r}"]
