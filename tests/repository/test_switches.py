"""Every switch has a test for each of its positions: switches.toml names them, and is complete."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from messaging.policies.model import value_schema
from messaging.policies.registry import ENFORCED
from messaging.settings import Settings

TABLE = Path(__file__).with_name("switches.toml")
# The settings of brokers that Pulsar's documentation of messaging names, and those that switch kinds of topics off.
REFERENCE = {
    "acknowledgmentAtBatchIndexLevelEnabled",
    "allowAutoSubscriptionCreation",
    "allowAutoTopicCreation",
    "allowAutoTopicCreationType",
    "brokerDeduplicationEnabled",
    "defaultNumPartitions",
    "delayedDeliveryEnabled",
    "delayedDeliveryTickTimeMillis",
    "delayedDeliveryTrackerFactoryClassName",
    "enableNonPersistentTopics",
    "enablePersistentTopics",
    "isDelayedDeliveryDeliverAtTimeStrict",
    "maxMessageSize",
    "nettyMaxFrameSizeBytes",
    "subscriptionKeySharedUseConsistentHashing",
    "systemTopicEnabled",
    "topicLevelPoliciesEnabled",
}
NUMBERS = {"default", "another"}


@pytest.fixture
def table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text())


@cache
def functions(path: Path) -> set[str]:
    """Tests of a module."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def positions(schema: dict[str, Any]) -> set[str] | None:
    """Of what takes one of a few values; None of anything else."""
    if schema.get("type") == "boolean":
        return {"true", "false"}
    if "enum" in schema:
        return set(schema["enum"])
    return set(schema["items"]["enum"]) if "enum" in schema.get("items", {}) else None


def switches() -> dict[tuple[str, str], set[str]]:
    schema = msgspec.json.schema(Settings)["$defs"]["Settings"]["properties"]
    choices = {("settings", name): positions(field) for name, field in schema.items()}
    choices |= {("policies", name): positions(value_schema(policy)) for name, policy in ENFORCED.items()}
    return {place: values for place, values in choices.items() if values is not None}


def test_every_position_of_every_switch_names_a_test(table: dict[str, Any]) -> None:
    for (kind, name), values in switches().items():
        assert name in table[kind], f"{kind} {name} is a switch: list the tests of its positions in {TABLE.name}"
        assert table[kind][name].keys() - {"reference"} == values, f"{kind} {name}"


def test_nothing_else_is_listed_but_numbers_of_the_documentation(table: dict[str, Any]) -> None:
    known, settings = switches(), set(Settings.__struct_fields__)
    for kind in ("settings", "policies"):
        for name, row in table[kind].items():
            if (kind, name) not in known:
                assert kind == "settings" and name in settings and row.keys() == NUMBERS | {"reference"}, name


def test_every_setting_of_the_documentation_is_found(table: dict[str, Any]) -> None:
    rows = [*table["settings"].values(), *table["policies"].values()]
    named = [name for row in rows for name in row.get("reference", ())]
    assert sorted([*named, *table["none"]]) == sorted(REFERENCE)


def test_the_tests_exist(table: dict[str, Any], repository: Path) -> None:
    named = [
        test for kind in ("settings", "policies") for row in table[kind].values() for key, test in row.items() if key != "reference"
    ]
    named += [row["tested"] for row in table["none"].values()]
    missing = []
    for test in sorted(set(named)):
        module, _, function = test.partition("::")
        path = repository / "tests" / module
        if not (path.is_file() and function in functions(path)):
            missing.append(test)
    assert missing == []
