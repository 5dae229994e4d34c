"""The feed: a broker that applies what it is sent, in whatever portions, holds the truth."""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec
import pytest
from django.conf import settings as django_settings
from django.test import Client

from messaging.adminrpc.schema import FeedApply
from messaging.identity import create_secrets, issue_token, service_token
from messaging.settings import Settings
from tenants import actions, feed
from tenants.models import FeedHead, OutboxChange
from tests.tenants.conftest import World
from tests.tenants.fake_broker import FakeBroker


def truth() -> dict[tuple[str, str], Any]:
    return {(change.kind, change.key): change.state for change in feed.since(0).changes}


def random_changes(world: World, rng: random.Random, count: int) -> None:
    actor = world.actor("olga")
    for _ in range(count):
        match rng.randrange(5):
            case 0:
                actions.set_policies(actor, "acme/orders", {"message_ttl_s": rng.randrange(1000)})
            case 1:
                actions.grant_permission(actor, "acme/orders", f"r{rng.randrange(3)}", ["produce"])
            case 2:
                actions.revoke_permission(actor, "acme/orders", f"r{rng.randrange(3)}")
            case 3:
                actions.create_key(actor, "acme", "app")
            case 4:
                actions.restrict_subscription(actor, "acme/orders", "s", [f"r{rng.randrange(3)}"])


@pytest.mark.parametrize("seed", range(5))
def test_any_sequence_of_portions_ends_at_the_truth(world: World, seed: int) -> None:
    rng = random.Random(seed)
    late = FakeBroker()
    for _ in range(4):
        random_changes(world, rng, rng.randrange(4))
        late.feed_apply(feed.since(late.version if rng.random() < 0.7 else rng.randrange(late.version + 1)))
        assert late.state == world.broker.state == truth()


def test_versions_have_no_gap(world: World) -> None:
    random_changes(world, random.Random(1), 10)
    versions = list(OutboxChange.objects.values_list("version", flat=True))
    assert versions == list(range(1, FeedHead.objects.get().version + 1))


def test_who_lags_behind_what_is_kept_gets_everything(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "KEPT_CHANGES", 5)
    random_changes(world, random.Random(2), 20)
    head = FeedHead.objects.get()
    assert 5 <= OutboxChange.objects.count() < 10
    assert head.compacted_version > 0
    behind = feed.since(head.compacted_version - 1)
    assert behind.full
    assert not feed.since(head.compacted_version).full
    late = FakeBroker()
    late.version, late.state = head.compacted_version - 1, {("tenant", "gone"): {}}
    late.feed_apply(behind)
    assert late.state == truth()


def test_a_broker_from_another_database_gets_everything(world: World) -> None:
    found = feed.since(FeedHead.objects.get().version + 100)
    assert found.full
    assert found.from_version == 0


def get(path: str, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Client().get(path, headers=headers)


def test_the_feed_is_for_processes_of_ours(world: World, tmp_path: Any) -> None:
    settings: Settings = django_settings.MAGNETAR
    stranger = Settings(data_dir=str(tmp_path))
    create_secrets(stranger)
    tokens = ["", "nonsense", world.superuser_token, issue_token(settings, "service:broker", "k", int(time.time()))]
    tokens.append(service_token(stranger, "broker"))
    for token in tokens:
        response = get("/internal/v1/feed?since=0", token)
        assert response.status_code == 401, token
        assert response.json()["code"] == "authentication_failed"
    response = get("/internal/v1/feed?since=2", service_token(settings, "broker"))
    assert response.status_code == 200
    found = msgspec.json.decode(response.content, type=FeedApply)
    assert (found.full, found.from_version, found.to_version) == (False, 2, FeedHead.objects.get().version)
    assert [change.version for change in found.changes] == list(range(3, found.to_version + 1))


@pytest.mark.parametrize("since", ["-1", "x", "1e3", "9" * 30, ""])
def test_a_version_that_is_none(world: World, since: str) -> None:
    response = get(f"/internal/v1/feed?since={since}", service_token(django_settings.MAGNETAR, "broker"))
    assert response.status_code == 400
