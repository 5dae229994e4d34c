"""Which brokers are held for a backup, and what they say of their ledgers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.backup import brokers
from controlplane.backup.brokers import HeldBrokers, brokers_of_the_fleet, require_same_brokers
from messaging.adminrpc.backup import BackupHeld, BackupKeep, BackupLedgers, LedgersNoted
from messaging.adminrpc.base import Empty
from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.errors import NotReady
from messaging.settings import ConfigError, Settings

URLS = ["http://127.0.0.1:1", "http://127.0.0.1:2"]


class FakeRpc:
    """`answers` is asked with a broker's address, the name of the call and its request."""

    answers: Callable[[str, str, Any], Any]
    calls: list[tuple[str, str]]

    def __init__(self, url: Callable[[], str], *_arguments: Any, **_options: Any) -> None:
        self._url = url()

    def call(self, method: Any, request: Any) -> Any:
        self.calls.append((self._url, method.name))
        return type(self).answers(self._url, method.name, request)

    def close(self) -> None:
        self.calls.append((self._url, "close"))


@pytest.fixture
def rpc(monkeypatch: pytest.MonkeyPatch) -> type[FakeRpc]:
    monkeypatch.setattr(brokers, "AdminRpc", FakeRpc)
    monkeypatch.setattr(FakeRpc, "calls", [], raising=False)
    return FakeRpc


def answering(rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch, answers: Callable[[str, str, Any], Any]) -> None:
    monkeypatch.setattr(rpc, "answers", staticmethod(answers), raising=False)


@pytest.mark.parametrize(
    ("seen", "held"),
    [
        ([BrokerSeen(broker_id="a", live=True, broker_url="", rpc_url="")], URLS),  # it need not say where it is
        (
            [
                BrokerSeen(broker_id="a", live=True, broker_url="", rpc_url="https://m1:7650"),
                BrokerSeen(broker_id="b", live=True, broker_url="", rpc_url="https://m2:7650"),
                BrokerSeen(broker_id="gone", live=False, broker_url="", rpc_url="https://m3:7650"),
            ],
            ["https://m1:7650", "https://m2:7650"],
        ),
    ],
)
def test_all_live_brokers_of_the_fleet_are_held(
    rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch, seen: list[BrokerSeen], held: list[str]
) -> None:
    answering(rpc, monkeypatch, lambda url, name, request: BrokersSeen(brokers=seen))
    assert brokers_of_the_fleet(Settings(), URLS) == held
    assert brokers_of_the_fleet(Settings(), []) == []


def test_one_that_is_not_ready_or_a_fleet_that_is_not_known(rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch) -> None:
    live = [BrokerSeen(broker_id=name, live=True, broker_url="", rpc_url=url) for name, url in (("a", "https://m1:1"), ("b", ""))]
    answering(rpc, monkeypatch, lambda url, name, request: BrokersSeen(brokers=live))
    with pytest.raises(ConfigError, match="broker b is not ready"):
        brokers_of_the_fleet(Settings(), URLS)

    def refused(url: str, name: str, request: Any) -> Any:
        raise NotReady("the broker is starting")

    answering(rpc, monkeypatch, refused)
    with pytest.raises(ConfigError, match="the brokers could not be listed: the broker is starting"):
        brokers_of_the_fleet(Settings(), URLS)


def test_a_broker_that_came_or_went_at_the_moment_fails_the_backup(rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not held, and may have deleted a ledger before the ledgers were listed."""
    monkeypatch.setattr(brokers, "running_brokers", lambda _: URLS[:1])
    addresses = ["https://m1:1", "https://m2:1"]

    def answer(url: str, name: str, request: Any) -> Any:
        return BrokersSeen(brokers=[BrokerSeen(broker_id=one, live=True, broker_url="", rpc_url=one) for one in addresses])

    answering(rpc, monkeypatch, answer)
    require_same_brokers(Settings(), ["https://m2:1", "https://m1:1"])
    for held in (["https://m1:1"], ["https://m1:1", "https://m2:1", "https://m3:1"], ["https://m1:1", "https://m3:1"]):
        with pytest.raises(ConfigError, match="a broker came or went at the moment of the backup: try again"):
            require_same_brokers(Settings(), held)


def test_ledgers_are_asked_for_page_by_page_and_the_connections_closed(rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {URLS[0]: [(1, 5), (2, -2), (3, 0)], URLS[1]: [(2, 7), (9, -1)]}

    def answer(url: str, name: str, request: Any) -> Any:
        if isinstance(request, BackupLedgers):
            page = [end for end in ends[url] if end[0] > request.after_ledger_id][:2]
            return LedgersNoted(ends=page, scopes={"s": 4 + URLS.index(url), url: 1} if request.after_ledger_id < 0 else {})
        return BackupHeld(broker_id=url, version="", log="", files=[], small_files={}) if name == "backup.hold" else Empty()

    answering(rpc, monkeypatch, answer)
    held = HeldBrokers(Settings(), URLS, "1")
    assert [said.broker_id for said in held.hold()] == URLS
    held.go_on()
    # Of "s" the first one is not the owner any more: that it thinks so is to be seen.
    assert held.ledgers() == ({1: 5, 2: -2, 3: 0, 9: -1}, {"s": 4, URLS[0]: 1, URLS[1]: 1})
    held.end()
    first = [name for url, name in rpc.calls if url == URLS[0]]
    assert first == [
        "status",
        "backup.hold",
        "backup.keep",
        "backup.ledgers",
        "backup.ledgers",
        "backup.ledgers",
        "backup.keep",
        "close",
    ]
    held.give_up()  # of what has ended


def test_one_that_does_not_answer_is_known_before_any_is_held(rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(url: str, name: str, request: Any) -> Any:
        if url == URLS[1]:
            raise NotReady("it is away")
        return Empty()

    answering(rpc, monkeypatch, answer)
    held = HeldBrokers(Settings(), URLS, "1")
    with pytest.raises(ConfigError, match="the backup could not be taken: it is away; nothing was changed, try again"):
        held.hold()
    held.give_up()
    assert "backup.hold" not in {name for _, name in rpc.calls}


def test_no_broker_is_asked_any_more_once_it_was_given_up(rpc: type[FakeRpc], monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that renews asked over connections that had been closed meanwhile."""
    monkeypatch.setattr(brokers, "RENEW_S", 0.0)
    renewing, goes_on, keeps = threading.Event(), threading.Event(), list[int]()

    def answer(url: str, name: str, request: Any) -> Any:
        if isinstance(request, BackupKeep):
            keeps.append(request.keep_s)
            if len(keeps) > 1 and request.keep_s:
                renewing.set()
                goes_on.wait(10)
        return Empty()

    answering(rpc, monkeypatch, answer)
    held = HeldBrokers(Settings(), URLS[:1], "1")
    held.hold()
    held.go_on()
    assert renewing.wait(10)
    giving_up = threading.Thread(target=held.give_up)
    giving_up.start()
    giving_up.join(0.05)
    assert giving_up.is_alive() and ("close" not in {name for _, name in rpc.calls})
    goes_on.set()
    giving_up.join(10)
    assert not giving_up.is_alive() and keeps[-1] == 0 and rpc.calls[-1][1] == "close"
