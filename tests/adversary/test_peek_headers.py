"""Peeking at messages whose properties would break the headers that they are shown in.

Seen: a line break in a property's key made peek answer 500 for as long as the message was there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect

from tests.support.brokers.standalone import Standalone

TOPIC = "public/default/peeked"
AT = f"/admin/v2/persistent/{TOPIC}/subscription/s"
PROPERTIES = {
    "plain": "value",
    "line\r\nSet-Cookie: a=b": "split",
    "colon: and blank": "x",
    "ключ": "значение",
    "": "no name",
    "n\0l": "zero",
    "value": "line\r\nSet-Cookie: c=d",
    "controls": "\0\x1b[2J\x7f",
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    running = Standalone(tmp_path_factory.mktemp("peek") / "data").start()
    try:
        for path in (f"/admin/v2/persistent/{TOPIC}", AT):
            assert running.http("PUT", path, token=running.admin_token).status == 204
        yield running
    finally:
        running.close()


def publish(platform: Standalone, properties: dict[str, str]) -> None:
    url = f"{platform.ready['ws_url']}/ws/v2/producer/persistent/{TOPIC}"
    with connect(url, additional_headers={"Authorization": f"Bearer {platform.admin_token}"}, proxy=None) as connection:
        connection.send(json.dumps({"payload": base64.b64encode(b"hello").decode(), "properties": properties}))
        assert json.loads(connection.recv())["result"] == "ok"


def test_property_keys_with_line_breaks_are_shown_in_json_and_break_no_header(platform: Standalone) -> None:
    token = platform.admin_token
    publish(platform, PROPERTIES)
    answer = platform.http("GET", f"{AT}/position/1", token=token)
    assert (answer.status, answer.text) == (200, "hello")
    # What pulsar-admin reads: all of them in one header, and those that a header can be called in one each.
    assert json.loads(answer.headers["X-Pulsar-PROPERTY"]) == PROPERTIES
    assert answer.headers["X-Pulsar-PROPERTY-plain"] == "value"
    assert answer.headers["X-Pulsar-PROPERTY-value"] == "line%0D%0ASet-Cookie: c=d"
    assert "Set-Cookie" not in answer.headers
    assert int(answer.headers["X-Magnetar-Omitted-Headers"]) == 4


def test_very_many_properties_do_not_make_an_answer_that_clients_refuse(platform: Standalone) -> None:
    token = platform.admin_token
    platform.http("POST", f"{AT}/skip_all", token=token)
    publish(platform, {f"key-{index}": "v" * 50 for index in range(300)})
    answer = platform.http("GET", f"{AT}/position/1", token=token)
    assert (answer.status, answer.text) == (200, "hello")
    assert len(answer.headers) < 100
    assert int(answer.headers["X-Magnetar-Omitted-Headers"]) > 200
