"""Groups of policies: each enforced policy has one place."""

from __future__ import annotations

from collections import Counter

from messaging.policies.groups import GROUPS, SUBJECT_OF, SUBJECTS
from messaging.policies.model import Level
from messaging.policies.registry import ENFORCED


def test_each_enforced_policy_is_of_one_subject_and_each_subject_of_one_group() -> None:
    places = Counter(policy.name for group in GROUPS for subject in group.subjects for policy in subject.policies)
    assert places == Counter(list(ENFORCED)), "a new policy wants a place in messaging/policies/groups.py"
    assert len(SUBJECTS) == sum(len(group.subjects) for group in GROUPS)
    assert SUBJECT_OF.keys() == ENFORCED.keys()


def test_what_pulsar_sets_with_one_call_is_of_one_group() -> None:
    groups: dict[str, set[str]] = {}
    for group in GROUPS:
        for subject in group.subjects:
            for policy in subject.policies:
                if policy.path:
                    groups.setdefault(policy.path, set()).add(group.name)
    assert [path for path, names in groups.items() if len(names) > 1] == []


def test_a_subject_says_what_may_be_set_where() -> None:
    delayed = SUBJECTS["max_message_size_bytes"]
    assert delayed.at(Level.TOPIC) and not delayed.at(Level.NAMESPACE)
    assert SUBJECTS["subscription_dispatch_rate"].at(Level.SUBSCRIPTION)
