"""The registry: each policy is complete, and each that is accepted is enforced by code that exists and by a test of its effect."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from messaging.policies.model import Level, Policy, range_text, value_schema
from messaging.policies.pulsar import GROUP_PATH, PATHS, QUOTA_PATH
from messaging.policies.pulsar_topics import TOPIC_PATHS
from messaging.policies.registry import ENFORCED, POLICIES
from messaging.policies.validation import valid_value
from messaging.settings import Settings

EFFECTS = (
    "tests/messaging/broker/runtime/policies/test_policies*.py",
    "tests/tenants/rest/test_masking.py",
    "tests/tenants/test_policies.py",
    "tests/tenants/test_ceilings.py",
    "tests/tenants/test_key_scopes.py",
)


@cache
def _test_names(repository: Path) -> set[str]:
    trees = [ast.parse(path.read_text()) for pattern in EFFECTS for path in repository.glob(pattern)]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_policy_is_complete(policy: Policy) -> None:
    assert policy.meaning.endswith(".")
    if policy.path or Level.TENANT not in policy.levels:  # of tenants Pulsar has no policies
        assert policy.path in ({*PATHS, QUOTA_PATH, GROUP_PATH} if Level.NAMESPACE in policy.levels else TOPIC_PATHS)
    assert set(policy.levels) <= set(Level)
    assert (policy.default is None) == bool(policy.setting), "a policy has a default of its own or a setting, not both"
    valid_value(policy, getattr(Settings(), policy.setting) if policy.setting else policy.default)
    assert range_text(policy)
    assert value_schema(policy)
    for value in policy.words:
        valid_value(policy, list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize("policy", ENFORCED.values(), ids=ENFORCED)
def test_an_accepted_policy_is_enforced_by_code_and_has_a_test_of_its_effect(policy: Policy, repository: Path) -> None:
    module, _, path = policy.enforced_by.partition(":")
    target: object = import_module(module)
    for name in path.split("."):
        target = getattr(target, name)
    assert callable(target)
    known = _test_names(repository)
    assert any(name.startswith(f"test_policy_{policy.name}_") for name in known), f"no test of the effect of {policy.name}"


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_every_path_of_pulsar_has_policies(path: object) -> None:
    policies = path.policies  # type: ignore[attr-defined]
    assert policies
    assert len(policies) == 1 or all(policy.field for policy in policies)
    assert len({policy.field for policy in policies}) == len(policies)
