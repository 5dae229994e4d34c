"""The pages of a topic's messages: found, shown safely, searched further, for those who may read them, and recorded."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from admin_ui.views import message_files, messages
from messaging.broker.runtime.admin.browse import handlers
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import AuthenticationFailed
from messaging.permissions.model import Action
from messaging.times import time_text
from tenants.access import platform_actor
from tenants.actions import remove_member, set_custom_role, set_member, set_policies
from tenants.actions.people import create_person, end_sessions
from tenants.browsing import export
from tenants.http.authentication import actor_now
from tenants.models import AuditRecord, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PASSWORD

TOPIC = "persistent://acme/orders/read"
PAGE = f"{NAMESPACE}/topics/read/messages"


def fill(broker: ConsoleBroker, *values: object) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish_messages(
        TOPIC, *(OutgoingMessage(json.dumps(value).encode(), key=f"k{number}") for number, value in enumerate(values))
    )


def first_id(page: str) -> str:
    return page.partition('class="mono"><a href="')[2].partition('"')[0].rpartition("/")[2]


def test_the_newest_come_first_with_columns_of_their_fields(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": 4711, "who": {"name": "Ada"}}, {"id": 4712, "who": {"name": "<b>Bob"}})
    owner = browse("owner")
    page = text(owner, PAGE).partition('id="found"')[2]
    assert page.index("4712") < page.index("4711") and '<th scope="col">id</th>' in page and "&lt;b&gt;Bob" in page
    chosen = text(owner, PAGE, begin="oldest", columns="who.name", key="k0")
    assert '<th scope="col">who.name</th>' in chosen and "<td>Ada</td>" in chosen and "Bob" not in chosen
    assert "No message matches" in text(owner, PAGE, text="nowhere")
    assert "messages" in text(owner, f"{NAMESPACE}/topics/read") and PAGE in text(owner, f"{NAMESPACE}/topics/read")


def test_one_message_with_what_became_of_it(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": 4711})
    page = text(browse("owner"), PAGE)
    address = first_id(page)
    whole = text(browse("owner"), f"{PAGE}/{address}")
    assert "&quot;id&quot;: 4711" in whole and "It has not been sent yet." in whole and "k0" in whole
    assert "no message id" in text(browse("owner"), f"{PAGE}/x") and "has no entry" in text(browse("owner"), f"{PAGE}/99:0")


def test_a_search_that_found_nothing_yet_goes_on_by_itself_and_can_be_stopped(
    browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, *range(5))
    monkeypatch.setattr(handlers, "ENTRIES_MAX", 2)
    monkeypatch.setattr(handlers, "SLICE_ENTRIES", 2)
    owner = browse("owner")
    page = text(owner, PAGE, key="k0")
    assert 'max="5" value="2"' in page and 'hx-trigger="load' in page
    further = page.partition(f'hx-get="{PAGE}')[2].partition('"')[0].replace("&amp;", "&")
    part = owner.get(f"{PAGE}{further}", headers={"HX-Request": "true"}).content.decode()
    assert 'max="5" value="4"' in part and "<html" not in part
    assert 'hx-trigger="load' not in text(owner, f"{PAGE}{further}&stop=yes")
    last = part.partition(f'hx-get="{PAGE}')[2].partition('"')[0].replace("&amp;", "&")
    assert "1 message<" in text(owner, f"{PAGE}{last}")
    assert AuditRecord.unscoped.filter(action="message.browse").count() == 2, "where it began, and what was shown"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"begin": "time", "at": "soon"}, "is not a time"),
        ({"begin": "message"}, "Say where to begin"),
        ({"path": "$..x"}, "is not understood"),
        ({"columns": ",".join("abcdefghi")}, "are more than fit"),
        ({"begin": "subscription", "at": "absent"}, "absent"),
        ({"published_from": "2026-03-01T14:00:00Z", "published_until": "2026-03-01T00:00:00Z"}, "not after its beginning"),
    ],
)
def test_what_is_not_understood_is_said(browse: Browse, broker: ConsoleBroker, query: dict[str, str], problem: str) -> None:
    fill(broker, 1)
    assert problem in text(browse("owner"), f"{PAGE}?{urlencode(query)}")


def test_who_sees_all_but_messages_is_refused(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"secret": "x"})
    teammate = browse("teammate")
    assert teammate.get(PAGE).status_code == 403 and teammate.get(f"{PAGE}/1:0").status_code == 403
    assert PAGE not in text(teammate, f"{NAMESPACE}/topics/read")
    assert browse("stranger").get(PAGE).status_code == 404
    assert browse("owner").get(f"{NAMESPACE}/topics/absent/messages").status_code == 404


def test_a_receipt_leads_to_the_message_or_to_those_with_the_key(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": 1})
    owner = browse("owner")
    assert owner.get(PAGE, {"receipt": "3:7"}).headers["Location"] == f"{PAGE}/3:7"
    assert "key=order+4711" in owner.get(PAGE, {"receipt": "order 4711"}).headers["Location"]
    assert not AuditRecord.unscoped.filter(action="message.browse").exists()


def test_what_was_found_is_downloaded_and_that_is_recorded(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": 1, "note": '=HYPERLINK("x")'}, {"id": -2, "note": "ü"}, {"id": 3})
    owner = browse("owner")
    lines = owner.get(f"{PAGE}/export", {"begin": "oldest", "as": "jsonl"})
    assert [json.loads(line)["value"]["id"] for line in lines.content.splitlines()] == [1, -2, 3]
    assert lines.headers["Content-Disposition"] == 'attachment; filename="messages-3.jsonl"'
    table = owner.get(f"{PAGE}/export", {"begin": "oldest", "as": "csv", "columns": "id, note", "path": "note"}).content.decode()
    rows = list(csv.reader(io.StringIO(table)))
    assert rows[0][-3:] == ["id", "note", "payload"] and [row[-3:-1] for row in rows[1:]] == [
        ["1", '\'=HYPERLINK("x")'],
        ["-2", "ü"],
    ]
    shared = owner.get(f"{PAGE}/export", {"begin": "oldest", "as": "csv", "columns": "=1+1, id"}).content.decode()
    assert "'=1+1,id,payload" in shared.splitlines()[0], "a link that somebody else made names columns"
    first = dict(zip(rows[0], rows[1], strict=True))
    assert first["publish_time_utc"] == time_text(int(first["publish_time_ms"])) and first["publish_time_utc"].endswith("Z")
    assert AuditRecord.unscoped.filter(action="message.export").count() == 3
    address = first_id(text(owner, PAGE))
    payload = owner.get(f"{PAGE}/{address}/payload")
    assert payload.content == b'{"id": 3}' and payload.headers["Content-Type"] == "application/octet-stream"
    assert owner.get(f"{PAGE}/export", {"path": "$..x"}).status_code == 302
    for path in ("export", f"{address}/payload", "publish"):
        assert browse("teammate").get(f"{PAGE}/{path}").status_code == 403


def test_an_export_ends_at_its_limit_and_says_so(browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(broker, *range(5))
    monkeypatch.setattr(export, "LIMIT_MAX", 2)
    monkeypatch.setattr(export, "MESSAGES_MAX", 3)
    made = browse("owner").get(f"{PAGE}/export", {"begin": "oldest"})
    *messages, left = map(json.loads, made.content.splitlines())
    assert "messages-first-3.jsonl" in made.headers["Content-Disposition"] and len(messages) == 3
    after = left["incomplete"].partition("after=")[2].partition(" ")[0]
    rest = browse("owner").get(f"{PAGE}/export", {"begin": "oldest", "after": after, "as": "csv"}).content.decode()
    assert [row["payload"] for row in csv.DictReader(rest.splitlines())] == ["3", "4"]


@pytest.mark.parametrize("ended", ["membership", "session"])
def test_an_export_ends_with_the_right_to_read(
    browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    fill(broker, *range(5))
    monkeypatch.setattr(export, "LIMIT_MAX", 2)
    create_person(platform_actor(), "reader", PASSWORD)
    set_member(platform_actor(), "acme", "reader", "developer")
    reader = Client()
    reader.force_login(User.objects.get(username="reader"))
    assert reader.get(f"{PAGE}/export", {"begin": "oldest"}).content.count(b"\n") == 5  # of three pages
    refused: list[str] = []
    pages_asked = count(1)

    def actor_later(request: Any) -> Any:
        if next(pages_asked) == 2 and ended == "membership":
            remove_member(platform_actor(), "acme", "reader")
        elif ended == "session":
            end_sessions(platform_actor(), "reader")
        try:
            return actor_now(request)
        except AuthenticationFailed as error:
            refused.append(error.message)
            raise

    monkeypatch.setattr(message_files, "actor_now", actor_later)
    answer = reader.get(f"{PAGE}/export", {"begin": "oldest"})
    assert answer.status_code == (403 if ended == "membership" else 302) and b"message_id" not in answer.content
    assert refused == ([] if ended == "membership" else ["your session has ended: sign in again"])


def test_a_message_is_published_like_another_with_edits(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": 4711})
    owner = browse("owner")
    address = first_id(text(owner, PAGE))
    form = text(owner, f"{PAGE}/publish", **{"from": address})
    assert "&quot;id&quot;: 4711" in form and AuditRecord.unscoped.filter(action="message.read").count() == 1
    sent = {"payload": '{\r\n"id": 4712}', "encoding": "text", "key": "k0", "properties": "why=again\n"}
    answer = owner.post(f"{PAGE}/publish", sent)
    assert answer.status_code == 302, answer.content
    page = text(owner, answer.headers["Location"])
    assert "&quot;id&quot;: 4712" in page and "again" in page and "k0" in page
    assert AuditRecord.unscoped.filter(action="message.publish", after__messages=1).count() == 1
    for wrong, why in (({"encoding": "base64", "payload": "?"}, "no base64"), ({"properties": "x"}, "is no property")):
        assert why in owner.post(f"{PAGE}/publish", {**sent, **wrong}).content.decode()
    assert browse("teammate").post(f"{PAGE}/publish", sent).status_code == 403


@pytest.mark.parametrize(
    "payload",
    [b'{"price":1.10, "a":1, "a":2, "big":1e400}', b"first\r\nsecond\rthird", b"nul \x00", b"\n after a line", b"\xff\x00", b""],
)
def test_a_message_that_is_published_again_without_edits_is_the_same(browse: Browse, broker: ConsoleBroker, payload: bytes) -> None:
    """Also where it is JSON that would be written in another way, or has what a form changes."""
    properties = {"note": "a\u2028b", "last": "blank "}
    broker.real.add(TOPIC, "s")
    broker.real.publish_messages(TOPIC, OutgoingMessage(payload, key="k", properties=properties))
    owner = browse("owner")
    form = owner.get(f"{PAGE}/publish", {"from": first_id(text(owner, PAGE))}).context["form"]
    # A browser sends every end of a line as CR LF
    sent = {name: re.sub("\r\n|\r|\n", "\r\n", form.initial[name]) for name in ("payload", "encoding", "key", "properties")}
    answer = owner.post(f"{PAGE}/publish", sent)
    assert answer.status_code == 302, answer.content
    assert owner.get(f"{answer.headers['Location']}/payload").content == payload
    lines = owner.get(f"{PAGE}/export", {"begin": "oldest"}).content.splitlines()
    assert [json.loads(line)["properties"] for line in lines] == [properties, properties]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (OutgoingMessage(b"x", properties={"lines": "a\nb"}), "A property of it"),
        (OutgoingMessage(b"x", properties={"a=b": "c"}), "A property of it"),
        (OutgoingMessage(b"x", properties={f"p{number}": "x" * 20_000 for number in range(8)}), "are too long to be edited"),
    ],
)
def test_what_the_form_cannot_publish_unchanged_is_not_offered_in_it(
    browse: Browse, broker: ConsoleBroker, message: OutgoingMessage, why: str
) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish_messages(TOPIC, message)
    owner = browse("owner")
    page = text(owner, f"{PAGE}/publish", **{"from": first_id(text(owner, PAGE))})
    assert why in page and ">x</textarea>" not in page


def test_a_page_that_shows_a_part_of_a_payload_says_so(
    browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that is cut on the page, of one that is too large to be decoded; and of one that is shown whole."""
    fill(broker, "x" * 120_000, "short")
    owner = browse("owner")
    whole, cut = re.findall(rf'href="({PAGE}/\d[^"]*)"', text(owner, PAGE))
    assert "Only its beginning is shown" in text(owner, cut) and "Only its beginning" not in text(owner, whole)
    monkeypatch.setattr(messages, "WHOLE_BYTES_MAX", 1000)
    page = text(owner, cut)
    assert "120002 bytes, more than are decoded" in page and "open it" not in page and "Only its beginning is shown" in page
    monkeypatch.setattr(message_files, "PAYLOAD_BYTES_MAX", 1000)
    assert "-first.bin" in owner.get(f"{cut}/payload").headers["Content-Disposition"]
    broker.real.publish(TOPIC, b"")
    assert "It is empty." in text(owner, f"{PAGE}/{first_id(text(owner, PAGE))}")


def test_a_message_leads_to_who_read_messages_of_its_topic(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, 1)
    owner = browse("owner")
    page = text(owner, f"{PAGE}/{first_id(text(owner, PAGE))}")
    address = re.search(r'href="(/tenants/acme/audit[^"]*)"', page)
    assert address is not None
    records = text(owner, address[1]).partition("<tbody")[2]
    assert "message.read" in records and "message.browse" in records
    admin = platform_actor()
    set_custom_role(admin, "acme", "reader", [Action.MESSAGE_READ, Action.NAMESPACE_READ])
    set_member(admin, "acme", "teammate", "reader")
    assert "/tenants/acme/audit" not in text(browse("teammate"), f"{PAGE}/{first_id(text(owner, PAGE))}")


def test_what_is_published_is_followed_from_now_on(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": "before"})
    owner, tail = browse("owner"), f"{PAGE}/tail"
    page = text(owner, tail, key="k1")
    assert "Waiting for messages." in page and "before" not in page
    further = page.partition(f'hx-get="{tail}')[2].partition('"')[0].replace("&amp;", "&")
    broker.real.publish_messages(TOPIC, OutgoingMessage(b'{"id": "other"}'), OutgoingMessage(b'{"id": "<i>new"}', key="k1"))
    part = owner.get(f"{tail}{further}", headers={"HX-Request": "true"}).content.decode()
    assert "&lt;i&gt;new" in part and "other" not in part and 'hx-trigger="every 2s"' in part
    further = part.partition(f'hx-get="{tail}')[2].partition('"')[0].replace("&amp;", "&")
    part = owner.get(f"{tail}{further}", headers={"HX-Request": "true"}).content.decode()
    assert "new" not in part, "only once"
    assert AuditRecord.unscoped.filter(action="message.browse").count() == 2, "the beginning, and what was shown"
    assert "Ten minutes are over" in owner.get(f"{tail}{further.replace('polls=2', 'polls=299')}").content.decode()
    broker.real.add_partitioned("persistent://acme/orders/parts", 2)
    assert "follow one of its partitions" in text(owner, f"{NAMESPACE}/topics/parts/messages/tail")
    assert browse("teammate").get(tail).status_code == 403


def followed_on(part: str, page: str) -> str:
    """The address that a part asks for by itself."""
    return part.partition(f'hx-get="{page}')[2].partition('"')[0].replace("&amp;", "&")


def test_a_tail_goes_on_where_it_stood_when_the_broker_was_away(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"id": "before"})
    owner, tail = browse("owner"), f"{PAGE}/tail"
    further = followed_on(text(owner, tail), tail)
    broker.cut()
    for _ in range(2):
        part = owner.get(f"{tail}{further}", headers={"HX-Request": "true"}).content.decode()
        assert "The broker is not responding" in part and "goes on by itself" in part
        further = followed_on(part, tail)
    broker.mend()
    broker.real.publish_messages(TOPIC, OutgoingMessage(b'{"id": "meanwhile"}'))
    part = owner.get(f"{tail}{further}", headers={"HX-Request": "true"}).content.decode()
    assert "meanwhile" in part and "before" not in part
    broker.cut()
    part = owner.get(f"{tail}{further.replace('polls=3', 'polls=299')}", headers={"HX-Request": "true"}).content.decode()
    assert followed_on(part, tail) == "" and "Follow again" in part


def test_a_search_goes_on_where_it_stood_when_the_broker_was_away(
    browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, *range(5))
    monkeypatch.setattr(handlers, "ENTRIES_MAX", 2)
    monkeypatch.setattr(handlers, "SLICE_ENTRIES", 2)
    owner = browse("owner")
    further = followed_on(text(owner, PAGE, key="k0"), PAGE)
    broker.cut()
    part = owner.get(f"{PAGE}{further}", headers={"HX-Request": "true"}).content.decode()
    assert "2 entries were looked at before" in part and followed_on(part, PAGE) == further and "Try again" in part
    assert "goes on by itself" not in text(owner, f"{PAGE}{further}&stop=yes")
    assert "Try again" not in text(owner, PAGE, begin="time", at="never") and "Try again" in text(owner, f"{PAGE}/0:0")
    broker.mend()
    part = owner.get(f"{PAGE}{further}", headers={"HX-Request": "true"}).content.decode()
    assert 'max="5" value="4"' in part


def test_who_may_publish_alone_is_shown_nothing_to_publish_again(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"secret": 1})
    owner = browse("owner")
    address = first_id(text(owner, PAGE))
    admin = platform_actor()
    set_custom_role(admin, "acme", "sender", [Action.PRODUCE])
    set_member(admin, "acme", "teammate", "sender")
    sender = browse("teammate")
    assert "secret" not in text(sender, f"{PAGE}/publish")
    assert sender.get(f"{PAGE}/publish", {"from": address}).status_code == 403
    assert sender.get(PAGE).status_code == 403


def test_who_may_only_read_sees_masks_and_can_take_nothing_along(browse: Browse, broker: ConsoleBroker) -> None:
    fill(broker, {"order": 1, "email": "ada@example.com"})
    admin = platform_actor()
    set_policies(admin, "acme/orders", {"masked_fields": ["$.email", "key"]})
    set_member(admin, "acme", "teammate", "viewer")
    reader = browse("teammate")
    page = text(reader, PAGE)
    message_id = first_id(page)
    shown = [
        page,
        text(reader, f"{PAGE}/{message_id}"),
        text(reader, f"{PAGE}/export", begin="oldest"),
        text(reader, f"{PAGE}/tail"),
    ]
    assert "•••" in shown[0] and "Masked" in shown[1] and "•••" in shown[2]
    refused = reader.get(f"{PAGE}/{message_id}/payload")
    assert refused.status_code == 302
    assert reader.get(PAGE, {"begin": "oldest", "key": "k0"}).status_code == 403
    set_custom_role(admin, "acme", "editor", [Action.PRODUCE, Action.MESSAGE_READ])
    set_member(admin, "acme", "teammate", "editor")
    shown.append(text(browse("teammate"), f"{PAGE}/publish", **{"from": message_id}))
    assert "masked for you" in shown[-1]
    assert not any("ada@example" in each for each in shown)
    assert "ada@example.com" in text(browse("owner"), PAGE)
