"""Files of `magnetar plan`: what they say, what is wrong with them, and how they differ from what there is."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pytest

from controlplane.cli.remote.desired_parts import Change, WrongFile
from controlplane.cli.remote.desired_state import Tenant, changes, exported, parsed

FILE: dict[str, Any] = {
    "tenant": "acme",
    "namespaces": {
        "orders": {
            "policies": {"retention_time_min": 60},
            "grants": {"app@acme": ["produce", "consume"]},
            "topics": {"new": {"partitions": 4, "properties": {"team": "a"}, "subscriptions": {"billing": None}}},
        }
    },
    "keys": {"app": None},
}


def summary(differences: list[Change]) -> list[str]:
    return [str(change) for change in differences]


def test_a_new_tenant_gets_everything_in_an_order_that_works() -> None:
    assert summary(changes(parsed(FILE), parsed({"tenant": "acme"}))) == [
        "+ namespace orders",
        "~ policies orders",
        "+ topic orders/new",
        "~ properties orders/new",
        "+ subscription orders/new/billing",
        "~ grants orders",
        "+ key app",
    ]


def test_what_is_there_is_no_difference_and_an_export_says_the_same() -> None:
    assert changes(parsed(FILE), parsed(FILE), prune=True) == []
    assert changes(parsed(exported(parsed(FILE))), parsed(FILE), prune=True) == []


def test_what_the_file_does_not_name_stays_without_prune() -> None:
    actual = parsed(FILE)
    wanted = parsed({"tenant": "acme", "namespaces": {"orders": {"topics": {"new": None}}}})
    assert changes(wanted, actual) == []
    assert summary(changes(wanted, actual, prune=True)) == ["- subscription orders/new/billing"]
    wanted = parsed({"tenant": "acme", "namespaces": {"orders": None}, "keys": {"other": None}})
    assert summary(changes(wanted, actual, prune=True)) == ["- topic orders/new", "+ key other", "- key app"]


def test_a_difference_is_told_field_by_field() -> None:
    wanted = parsed({"tenant": "acme", "namespaces": {"orders": {"policies": {"retention_time_min": 90, "message_ttl_s": 5}}}})
    (change,) = changes(wanted, parsed(FILE))
    assert list(change.lines()) == ["~ policies orders", "    + message_ttl_s: 5", "    ~ retention_time_min: 60 -> 90"]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "the file is not an object: use tenant, policies, labels, language, namespaces, keys, roles, members, teams"),
        ({}, "tenant is missing"),
        (
            {"tenant": "a", "topics": {}},
            "unknown field 'topics': use tenant, policies, labels, language, namespaces, keys, roles, members, teams",
        ),
        ({"tenant": "a", "namespaces": {"n": {"topics": {"t": {"partition": 1}}}}}, "namespaces.n.topics.t has the unknown field"),
        ({"tenant": "a", "namespaces": {"n": {"topics": {"t": {"partitions": True}}}}}, "topics.t.partitions is True"),
        ({"tenant": "a", "namespaces": {"n": {"grants": {"r": "produce"}}}}, "grants.r is not a list of actions"),
        ({"tenant": "a", "namespaces": {"n": {"topics": {"t": {"properties": {"p": 1}}}}}}, "properties.p is 1, which is no text"),
        ({"tenant": "a", "namespaces": {2026: None}}, "the name 2026, which is no text"),
        ({"tenant": "a", "keys": {"../k": None}}, "no name of a key"),
        ({"tenant": "a", "keys": {"k": {"expires_at": "soon"}}}, "keys.k.expires_at is 'soon', which is no time"),
        ({"tenant": "a", "keys": {"k": {"scope": [{"topics": "t"}]}}}, "keys.k.scope has no list of actions"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(document: Any, why: str) -> None:
    with pytest.raises(WrongFile) as refused:
        parsed(document)
    assert why in str(refused.value)


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_topic_does_not_get_fewer_partitions(partitions: int) -> None:
    wanted = parsed({"tenant": "acme", "namespaces": {"orders": {"topics": {"new": {"partitions": partitions}}}}})
    with pytest.raises(WrongFile, match="never fewer"):
        changes(wanted, parsed(FILE))


@pytest.mark.parametrize("given", ["2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00", datetime(2027, 1, 1), date(2027, 1, 1)])
def test_a_time_is_the_same_however_it_is_written(given: Any) -> None:
    actual = parsed({"tenant": "acme", "keys": {"app": {"expires_at": "2027-01-01T00:00:00Z"}}})
    assert changes(parsed({"tenant": "acme", "keys": {"app": {"expires_at": given}}}), actual) == []


def test_a_key_that_was_replaced_is_satisfied_by_either_version() -> None:
    old, new = ({"expires_at": f"20{year}-01-01T00:00:00Z"} for year in (27, 28))
    actual = Tenant("acme", keys={"app": [old, new]})
    for said in (old, new, None):
        assert changes(parsed({"tenant": "acme", "keys": {"app": said}}), actual) == []
    assert exported(actual)["keys"] == {"app": new}


def test_a_key_that_may_do_nothing_is_not_exported_as_one_that_may_do_everything() -> None:
    actual = Tenant("acme", keys={"app": [{"expires_at": None, "scope": [], "networks": []}]})
    assert exported(actual)["keys"] == {"app": {"scope": []}}


# --- roles, members, teams, schemas ----------------------------------------------------------------------------------------------

PEOPLE: dict[str, Any] = {
    "tenant": "acme",
    "roles": {"keeper": {"description": "keeps keys", "actions": ["produce", "key_admin"]}},
    "members": {"ann": {"role": "keeper", "namespace": "orders", "topics": "pay-*"}, "bob": "viewer"},
    "teams": {"payments": {"roles": [{"role": "developer", "namespace": "orders"}, "viewer"], "members": ["bob", "ann"]}},
}


def test_a_role_comes_before_whoever_has_it_and_a_member_before_their_team() -> None:
    wanted = parsed(PEOPLE | {"namespaces": {"orders": None}})
    assert summary(changes(wanted, parsed({"tenant": "acme"}))) == [
        "+ namespace orders",
        "+ role keeper",
        "+ member ann",
        "+ member bob",
        "+ team payments",
        "~ members payments",
    ]
    assert changes(wanted, parsed(PEOPLE | {"namespaces": {"orders": None}}), prune=True) == []
    assert changes(parsed(exported(parsed(PEOPLE))), parsed(PEOPLE), prune=True) == []


def test_what_is_left_out_is_removed_the_other_way_round_and_only_of_kinds_that_are_named() -> None:
    fewer = {"tenant": "acme", "roles": {"other": {"actions": ["produce"]}}, "members": {"bob": "viewer"}, "teams": {"ops": None}}
    assert summary(changes(parsed(fewer), parsed(PEOPLE), prune=True)) == [
        "+ role other",
        "+ team ops",
        "- team payments",
        "- member ann",
        "- role keeper",
    ]
    assert summary(changes(parsed({"tenant": "acme", "members": {"bob": "viewer"}}), parsed(PEOPLE), prune=True)) == [
        "- member ann"
    ]
    assert summary(changes(parsed(fewer), parsed(PEOPLE))) == ["+ role other", "+ team ops"]


def test_of_a_team_and_a_role_only_what_the_file_says_is_compared() -> None:
    roles_only = parsed(
        {"tenant": "acme", "teams": {"payments": {"roles": ["viewer", {"role": "developer", "namespace": "orders"}]}}}
    )
    assert changes(roles_only, parsed(PEOPLE)) == []
    members_only = parsed({"tenant": "acme", "teams": {"payments": {"members": ["ann"]}}})
    (change,) = changes(members_only, parsed(PEOPLE))
    assert list(change.lines()) == ["~ members payments", "    ['ann', 'bob'] -> ['ann']"]
    (change,) = changes(parsed({"tenant": "acme", "members": {"bob": "developer"}}), parsed(PEOPLE))
    assert list(change.lines()) == ["~ member bob", "    ~ role: viewer -> developer"]


SCHEMA = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "string"}]}


def with_schema(schema: Any) -> dict[str, Any]:
    return {"tenant": "acme", "namespaces": {"orders": {"topics": {"new": {"partitions": 0, "schema": schema}}}}}


def test_a_schema_is_there_if_any_version_is_it_however_it_is_spaced() -> None:
    actual = parsed(
        with_schema({"type": "AVRO", "schema": '{"type":"record","name":"order","fields":[{"name":"id","type":"string"}]}'})
    )
    assert changes(parsed(with_schema({"type": "avro", "schema": SCHEMA})), actual) == []
    topic = actual.namespaces["orders"].topics["new"]
    topic.schemas = [*topic.schemas, {"version": 1, "type": "AVRO", "schema": "{}", "properties": {}, "created_ms": 1}]
    assert changes(parsed(with_schema({"type": "AVRO", "schema": SCHEMA})), actual) == []
    (change,) = changes(parsed(with_schema({"type": "AVRO", "schema": SCHEMA, "properties": {"a": "b"}})), actual)
    assert (change.verb, str(change)) == ("change", "~ schema orders/new")
    assert changes(parsed(with_schema(None)), actual) == [], "a file takes no schema away"
    (created,) = changes(parsed(with_schema({"type": "STRING"})), parsed(with_schema(None)))
    assert str(created) == "+ schema orders/new"
    shown = exported(parsed(with_schema({"type": "AVRO", "schema": json.dumps(SCHEMA)})))
    assert shown["namespaces"]["orders"]["topics"]["new"]["schema"] == {"type": "AVRO", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"roles": {"r": {"description": "d"}}}, "roles.r has no actions"),
        ({"roles": {"r": {"actions": "produce"}}}, "roles.r.actions is not a list of names"),
        ({"roles": {"r": {"actions": [], "description": 1}}}, "roles.r.description is 1"),
        ({"members": {"ann": None}}, "members.ann is no role"),
        ({"members": {"ann": {"role": "viewer", "topic": "t"}}}, "unknown field 'topic': use role, namespace, topics"),
        ({"teams": {"t": {"roles": "viewer"}}}, "teams.t.roles is not a list"),
        ({"teams": {"t": {"roles": [{"namespace": "n"}]}}}, "teams.t.roles is no role"),
        ({"teams": {"t": {"members": "ann"}}}, "teams.t.members is not a list of names"),
        ({"namespaces": {"n": {"topics": {"t": {"schema": {"schema": "{}"}}}}}}, "topics.t.schema.type is missing"),
        ({"namespaces": {"n": {"topics": {"t": {"schema": {"type": "AVRO", "text": ""}}}}}}, "unknown field 'text'"),
    ],
)
def test_what_is_no_right_and_no_schema_is_refused_with_the_place(document: dict[str, Any], why: str) -> None:
    with pytest.raises(WrongFile) as refused:
        parsed({"tenant": "acme"} | document)
    assert why in str(refused.value)
