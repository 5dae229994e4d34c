"""Which broker other processes call: one of this machine by its file, or those that the settings name and what these tell."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.brokers import BrokerAsked, BrokerSeen
from messaging.adminrpc.finding import ASKED_AGAIN_S, AVOIDED_S, BrokerChoice, admin_rpc, choice_of
from messaging.adminrpc.methods import STATUS
from messaging.errors import NotReady
from messaging.settings import Settings
from tests.support.brokers.fleet import running_fleet


def wrote(settings: Settings, name: str, pid: int) -> None:
    (settings.data_path / "run").mkdir(exist_ok=True)
    (settings.data_path / "run" / f"{name}.json").write_text(json.dumps({"pid": pid, "rpc_url": name}))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "run").mkdir()
    return Settings(data_dir=str(tmp_path))


def test_a_broker_that_does_not_answer_is_left_alone_for_a_while(settings: Settings) -> None:
    clock = [0.0]
    choice = BrokerChoice(settings, now_s=lambda: clock[0])
    wrote(settings, "broker", os.getpid())
    choice.did_not_answer("broker")
    assert choice.rpc_url() == "broker", "there is no other"
    wrote(settings, "broker-2", os.getpid())
    assert choice.rpc_url() == "broker-2"
    choice.did_not_answer("broker-2")
    assert choice.rpc_url() == "broker", "neither answers"
    clock[0] = AVOIDED_S
    choice.did_not_answer("broker-2")
    assert choice.rpc_url() == "broker"


def test_without_a_broker_it_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(NotReady, match="not running"):
        BrokerChoice(settings).rpc_url()
    wrote(settings, "broker", os.getpid())
    (settings.data_path / "run" / "broker.json").write_text("[]")
    with pytest.raises(NotReady, match=r"broker\.json .* cannot be read \(ValueError\)"):
        BrokerChoice(settings).rpc_url()


class Brokers:
    """Those of a platform: what the ones that are up tell, each of which has an address of the form http://127.0.0.1:N."""

    def __init__(self, *up: int) -> None:
        self.up = set(up)
        self.asked: list[str] = []

    def ask(self, url: str) -> Sequence[BrokerSeen]:
        self.asked.append(url)
        if int(url.rpartition(":")[2]) not in self.up:
            raise NotReady("away")
        return [
            BrokerSeen(broker_id=f"b{number}", live=True, broker_url="", rpc_url=local(number), ws_url=f"ws://b{number}:1")
            for number in sorted(self.up)
        ]


def local(number: int) -> str:
    return f"http://127.0.0.1:{number}"


def named(*numbers: int) -> Settings:
    return Settings(broker_rpc_url=", ".join(map(local, numbers)))


def test_of_those_that_are_named_the_first_that_answers_tells_of_the_others() -> None:
    clock, brokers = [0.0], Brokers(2, 3)
    choice = BrokerChoice(named(1, 2), brokers.ask, now_s=lambda: clock[0])
    assert choice.rpc_url() == local(2), "the first did not answer"
    assert brokers.asked == [local(1), local(2)]
    assert [choice.name_of(local(number)) for number in (2, 3, 4)] == ["broker b2", "broker b3", "the broker"]
    assert [broker.broker_id for broker in choice.seen()] == ["b2", "b3"] and len(brokers.asked) == 2, "it is known for a while"
    choice.did_not_answer(local(2))
    assert choice.rpc_url() == local(3), "nobody named it"
    choice.did_not_answer(local(3))
    assert choice.rpc_url() == local(1), "none answers: the one for which that is longest ago"
    clock[0] = ASKED_AGAIN_S + 1
    brokers.up = {1}
    assert choice.rpc_url() == local(1) and [broker.broker_id for broker in choice.seen()] == ["b1"]


def test_a_broker_that_others_take_for_gone_is_called_last() -> None:
    """It does not tell of the others, and answers most calls with an error."""
    seen = [
        BrokerSeen(broker_id=f"b{number}", live=number != 1, broker_url="", rpc_url=local(number), ws_url=f"ws://b{number}:1")
        for number in (1, 2)
    ]

    def ask(url: str) -> Sequence[BrokerSeen]:
        if url == local(1):
            raise NotReady("this broker cannot renew its session")
        return seen

    clock = [0.0]
    choice = BrokerChoice(named(1, 2), ask, now_s=lambda: clock[0])
    assert choice.rpc_url() == local(2)
    clock[0] = AVOIDED_S + 1
    assert choice.rpc_url() == local(2), "it is not left alone any more, and comes last"
    assert choice.ws_urls() == ["ws://b2:1"]
    choice.did_not_answer(local(2))
    assert choice.rpc_url() == local(1), "better than none"


def test_while_none_answers_it_is_asked_again_after_a_while() -> None:
    clock, brokers = [0.0], Brokers()
    choice = BrokerChoice(named(1, 2), brokers.ask, now_s=lambda: clock[0])
    assert (choice.rpc_url(), list(choice.seen()), choice.ws_urls()) == (local(1), [], [])
    assert len(brokers.asked) == 2
    clock[0], brokers.up = AVOIDED_S, {2}
    assert choice.ws_urls() == ["ws://b2:1"]


def test_an_address_of_another_machine_itself_is_not_taken_for_one_here() -> None:
    settings = Settings(
        broker_rpc_url="https://b1.internal:7650", internal_tls_cert_file="a", internal_tls_key_file="b", internal_tls_ca_file="c"
    )
    told = [BrokerSeen(broker_id="b2", live=True, broker_url="", rpc_url="https://127.0.0.1:7650")]
    choice = BrokerChoice(settings, lambda url: told)
    choice.did_not_answer("https://b1.internal:7650")
    assert choice.rpc_url() == "https://b1.internal:7650"


def test_websockets_go_where_the_settings_say() -> None:
    choice = BrokerChoice(Settings(broker_ws_url="ws://a:1,ws://b:1"), lambda url: pytest.fail("nobody is asked"))
    assert choice.ws_urls() == ["ws://a:1", "ws://b:1"]
    choice.did_not_answer("ws://a:1")
    assert choice.ws_urls() == ["ws://b:1", "ws://a:1"]


def answered(settings: Settings, service: str, method: Method[R, A], request: R) -> A:
    with closing(admin_rpc(settings, service, choice_of(settings, service))) as rpc:
        return rpc.call(method, request)


async def test_a_fleet_is_found_by_any_of_it_and_a_call_goes_to_one_that_is_up(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as (first, second):
        urls = [each.service.addresses.rpc_url for each in (first, second)]
        settings = Settings(data_dir=str(tmp_path), broker_rpc_url=f"http://127.0.0.1:1,{urls[1]}")
        for service in ("web", "worker", "cli"):
            seen = await asyncio.to_thread(choice_of(settings, service).seen)
            assert [(broker.live, broker.rpc_url) for broker in seen] == [(True, url) for url in urls]
            assert (await asyncio.to_thread(answered, settings, service, STATUS, BrokerAsked())).broker_id == "broker-2"
