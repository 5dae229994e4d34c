"""Policies as text: for each enforced policy of the registry, its effective value and where the value is set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from admin_ui.pages import sentence
from admin_ui.translation.figures import exact
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.adminrpc.policies import PolicyPreviewAnswer
from messaging.policies import effective, texts
from messaging.policies.groups import GROUPS, Subject
from messaging.policies.model import Level, Policy
from messaging.policies.registry import ENFORCED, POLICIES
from messaging.policies.resolution import Levels
from messaging.policies.validation import split
from tenants.actions.policy_history import differences
from tenants.models import AuditRecord

_TEXT_LENGTH_MAX = 200
_THIS = {
    Level.TENANT: gettext_lazy("this tenant"),
    Level.NAMESPACE: gettext_lazy("this namespace"),
    Level.TOPIC: gettext_lazy("this topic"),
}
_THE = {
    Level.TENANT: gettext_lazy("the tenant"),
    Level.NAMESPACE: gettext_lazy("the namespace"),
    Level.TOPIC: gettext_lazy("the topic"),
}


@dataclass(frozen=True)
class InForce:
    """`text`: the value with its unit. `is_set`: it is set on what is shown. `source`: where it comes from otherwise."""

    label: str
    text: str
    is_set: bool
    source: str
    meaning: str


class SubjectRow(NamedTuple):
    """`policies`: those in force; `is_set`: one of them is set on what is shown; `source`: where the value comes from."""

    name: str
    title: str
    policies: list[InForce]
    is_set: bool
    source: str


class GroupRows(NamedTuple):
    """`is_open`: its rows are shown at once; `set_count`: so many are set on what is shown."""

    name: str
    title: str
    rows: list[SubjectRow]
    set_count: int
    is_open: bool


class PolicyLevels(NamedTuple):
    """A policy at each level at which it may be set, the nearest first: (level, value or "", whether that is in force)."""

    label: str
    levels: list[tuple[str, str, bool]]


def shown_at(subject: Subject, scope: Level) -> bool:
    return any(effective.is_shown_for(policy, scope) for policy in subject.policies)


def set_here(every: Iterable[GroupRows]) -> list[SubjectRow]:
    """The subjects of which something is set on what is shown."""
    return [row for group in every for row in group.rows if row.is_set]


def groups(levels: Levels, defaults: Mapping[str, Any], scope: Level, words: str = "") -> list[GroupRows]:
    """Those in which there is something; with `words`, something whose name, value or meaning has them all. `levels`: what is set
    on what is shown, which is of the level `scope`, and above; `defaults`: what is in force where nothing is."""
    shown = []
    for group in GROUPS:
        found = [(subject, effective.shown_for(subject.policies, levels, defaults, scope)) for subject in group.subjects]
        rows = [_row(subject, policies, scope) for subject, policies in found if policies and _matches(subject, policies, words)]
        if rows:
            shown.append(GroupRows(group.name, gettext(group.title), rows, sum(row.is_set for row in rows), bool(words.strip())))
    return shown


def levels_set(subject: Subject, levels: Levels, defaults: Mapping[str, Any], scope: Level) -> list[PolicyLevels]:
    shown = []
    for found in effective.shown_for(subject.policies, levels, defaults, scope):
        policy = found.policy
        nearest = list(Level).index(scope)
        rows = [
            (_this(level, scope), value_text(policy, found.set_at[level]) if level in found.set_at else "", level is found.level)
            for level in policy.levels
            if list(Level).index(level) >= nearest
        ]
        rows.append((_default(policy), value_text(policy, defaults[policy.name]), found.level is Level.BROKER))
        shown.append(PolicyLevels(said(policy.title), rows))
    return shown


def one(name: str, levels: Levels, defaults: Mapping[str, Any]) -> InForce:
    """Of a namespace. `levels`: what is set there and above; `defaults`: what is in force where nothing is."""
    return _shown(effective.one(ENFORCED[name], levels, defaults), Level.NAMESPACE)


def _row(subject: Subject, found: Iterable[effective.PolicyInForce], scope: Level) -> SubjectRow:
    policies = [_shown(policy, scope) for policy in found]
    first = next((policy for policy in policies if policy.is_set), policies[0])
    return SubjectRow(subject.name, said(subject.title), policies, first.is_set, first.source)


def _matches(subject: Subject, policies: Iterable[effective.PolicyInForce], words: str) -> bool:
    if not words.strip():
        return True
    searched_in = [subject.title, said(subject.title)]
    for found in policies:
        searched_in += [found.policy.name, found.policy.title, found.policy.path, found.policy.meaning, found.text]
        searched_in += [said(found.policy.title), said(found.policy.meaning), said(found.text)]
    searched = " ".join(searched_in).lower()
    return all(word in searched for word in words.lower().split())


def _shown(found: effective.PolicyInForce, scope: Level) -> InForce:
    policy = found.policy
    source = _default(policy) if found.level is Level.BROKER else str(_THE[found.level])
    return InForce(said(policy.title), said(found.text), found.level is scope, source, said(policy.meaning))


def _default(policy: Policy) -> str:
    return gettext("broker default ({setting})").format(setting=policy.setting) if policy.setting else gettext("broker default")


def _this(level: Level, scope: Level) -> str:
    return str(_THIS[level] if level is scope else _THE[level])


def retention(levels: Levels, defaults: Mapping[str, Any]) -> InForce:
    """Time and size together: the stricter one applies."""
    time, size = one("retention_time_min", levels, defaults), one("retention_size_mb", levels, defaults)
    limits = [limit.text for limit in (time, size) if limit.text != said("unlimited")]
    text = gettext("not at all") if said("not at all") in limits else ", ".join(limits) or gettext("unlimited")
    return InForce(gettext("Retention"), text, time.is_set or size.is_set, time.source, time.meaning)


def not_enforced(policies: Mapping[str, Any]) -> list[dict[str, str]]:
    """Policies that an earlier release stored and that this one does not enforce."""
    return [{"name": name, "text": str(value)[:_TEXT_LENGTH_MAX]} for name, value in sorted(split(policies).unenforced.items())]


def effects(found: PolicyPreviewAnswer) -> list[str]:
    """What a change would do now, in sentences."""
    lines = []
    for effect in found.effects:
        local = effect.topic.rpartition("/")[2]
        text = sentence(said(effect.sentence))
        lines.append(f"{local}: {text}" if local else text)
    further = found.effects_count - len(found.effects)
    if further > 0:
        lines.append(gettext("And {further} more.").format(further=exact(further)))
    return lines or [gettext("Nothing that is connected or stored now would be affected.")]


def looked_at(found: PolicyPreviewAnswer) -> str:
    """Which topics the preview is about."""
    left_out = found.topics_left_out
    return gettext("Topics looked at: {topics_looked_at}.").format(topics_looked_at=exact(found.topics_looked_at)) + (
        gettext(" Not looked at, because they are not in use: {left_out}.").format(left_out=exact(left_out)) if left_out else ""
    )


class PolicyChange(NamedTuple):
    """A change of policies for the page: `record` is what takes it back."""

    record: int
    at: datetime
    role: str
    lines: list[str]


def policy_changes(records: Iterable[AuditRecord], subject: Subject | None = None) -> list[PolicyChange]:
    """With a `subject`: the changes of it."""
    names = {policy.name for policy in subject.policies} if subject is not None else set()
    return [
        PolicyChange(record.id, record.at, record.role, [_line(*difference) for difference in changed])
        for record in records
        if (changed := differences(record)) and (subject is None or any(name in names for name, _, _ in changed))
    ]


def _line(name: str, before: Any, after: Any) -> str:
    """Message TTL: not set → after 7 d."""
    policy = POLICIES.get(name)
    title = said(policy.title) if policy is not None else name
    return f"{title}: {_value(policy, before)} → {_value(policy, after)}"


def value_text(policy: Policy, value: Any) -> str:
    """In words, with its unit, in the language of the reader."""
    return said(texts.said(policy, value))


def _value(policy: Policy | None, value: Any) -> str:
    if value is None:
        return gettext("not set")
    return value_text(policy, value) if policy is not None else str(value)
