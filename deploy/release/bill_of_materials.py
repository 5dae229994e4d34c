"""The software bill of materials of a release: each library that the platform runs on, with version, license and what needs what.

CycloneDX 1.6 as JSON. The libraries are those of this environment, whose versions `constraints.txt` pins, found by following what
each one requires, so that what only tests use is not in it. The same environment and time give the same bytes.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import re
import uuid
from importlib.metadata import Distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "magnetar"
EXTRAS = frozenset({"spark", "bookkeeper"})  # of the platform's; what only they bring is optional
NAMESPACE = uuid.UUID("4f0c3f2e-6f5c-5d0f-9f43-8c3c1f0a7b11")
LICENSE_LENGTH_MAX = 80  # a longer field is the text of a license, not its name


def bill(version: str, made_at_s: int) -> str:
    """`made_at_s`: seconds since 1970. Raises `PackageNotFoundError` for a library that is required and not installed."""
    always = _closure(frozenset())
    edges_of = _closure(EXTRAS)
    libraries = [name for name in sorted(edges_of) if name != ROOT]
    value = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(made_at_s, datetime.UTC).isoformat(),
            "component": {
                **_component(ROOT, "application"),
                "version": version,
                "purl": f"pkg:pypi/{ROOT}@{version}",
                "bom-ref": ROOT,
            },
            "properties": [{"name": "magnetar:extras", "value": ",".join(sorted(EXTRAS))}],
        },
        "components": [_component(name, "library") | {"scope": "required" if name in always else "optional"} for name in libraries],
        "dependencies": [{"ref": name, "dependsOn": sorted(edges_of[name])} for name in [ROOT, *libraries]],
    }
    value["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(value, sort_keys=True))}"
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _closure(extras: frozenset[str]) -> dict[str, set[str]]:
    """Library -> those that it requires on this machine, from the platform on."""
    edges_of: dict[str, set[str]] = {}
    extras_of: dict[str, frozenset[str]] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(ROOT, extras)]
    while waiting:
        name, wanted = waiting.pop()
        if name in edges_of and wanted <= extras_of[name]:
            continue
        extras_of[name] = extras_of.get(name, frozenset()) | wanted
        needed = edges_of.setdefault(name, set())
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras_of[name], "")):
                continue
            target = canonicalize_name(requirement.name)
            if target != name:  # an extra that names others of the same library
                needed.add(target)
            waiting.append((target, frozenset(requirement.extras)))
    return edges_of


def _component(name: str, kind: str) -> dict[str, Any]:
    found = importlib.metadata.distribution(name)
    component: dict[str, Any] = {
        "type": kind,
        "bom-ref": name,
        "name": name,
        "version": found.version,
        "purl": f"pkg:pypi/{name}@{found.version}",
    }
    if summary := _field(found, "Summary"):
        component["description"] = summary
    if chosen := _license(found):
        component["licenses"] = [chosen]
    return component


def _field(found: Distribution, name: str) -> str:
    values: list[str] = found.metadata.get_all(name) or [""]
    return values[0]


def _license(found: Distribution) -> dict[str, Any] | None:
    """An SPDX expression where the library gives one, else the name that it gives. None: it says nothing."""
    if expression := _field(found, "License-Expression"):
        return {"expression": expression}
    classifiers = [text for text in found.metadata.get_all("Classifier") or () if text.startswith("License :: ")]
    named = _field(found, "License")
    if not named or "\n" in named or len(named) > LICENSE_LENGTH_MAX:
        named = classifiers[0].rpartition(" :: ")[2] if classifiers else ""
    named = re.sub(r"\s+", " ", named).strip()
    return {"license": {"name": named}} if named else None
