"""The page docs/client-matrix.md: which client was seen to do what."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.compat.probes.install import CLIENTS, ROOT

_HERE = Path(__file__).parent
OFFERED: dict[str, list[str]] = json.loads((_HERE / "features.json").read_text())
"""The features that each client offers, as its program says."""
NOT_YET: dict[str, str] = tomllib.loads((_HERE / "not_yet.toml").read_text())
"""Features, or "client: feature", that do not work with Magnetar yet, and why."""
PAGE = ROOT / "docs" / "client-matrix.md"

_HEAD = """<!-- Generated from tests/compat/probes/ by `make docs`; the tests run every cell. Edit the source, not this page. -->

# Clients and features

Every feature that an unmodified stock client offers is tried against a whole platform on every change
([tests/compat/test_clients.py](../tests/compat/test_clients.py)). "yes": it works as with Pulsar 4.0; "not yet": see below;
empty: the client does not offer it.

"""


def reason(client: str, feature: str) -> str:
    """Why a feature does not work yet, or ""."""
    return NOT_YET.get(f"{client}: {feature}", NOT_YET.get(feature, ""))


def page() -> str:
    features = list(dict.fromkeys(name for names in OFFERED.values() for name in names))
    lines = ["| feature | " + " | ".join(CLIENTS) + " |", "| --- |" + " --- |" * len(CLIENTS)]
    for feature in features:
        cells = [_cell(client, feature) for client in CLIENTS]
        lines.append(f"| {feature.replace('_', ' ')} | " + " | ".join(cells) + " |")
    text = _HEAD + "\n".join(lines) + "\n"
    if NOT_YET:
        text += "\n## Not yet\n\n" + "".join(f"- {name.replace('_', ' ')}: {why}\n" for name, why in sorted(NOT_YET.items()))
    return text


def _cell(client: str, feature: str) -> str:
    if feature not in OFFERED.get(client, []):
        return ""
    return "not yet" if reason(client, feature) else "yes"
