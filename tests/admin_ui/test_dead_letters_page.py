"""The workbench of dead letters: groups that lead further, a redrive of what matches or was chosen, and one that was edited."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from admin_ui.translation.languages import COOKIE
from admin_ui.views import dead_letters
from messaging.adminrpc.methods import NAMES_SEARCH, REDRIVE_SCAN
from messaging.broker.runtime.local import producer
from messaging.broker.runtime.local.frames import message_frame
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import NotReady
from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from workers.redrive import letters
from workers.redrive.models import RedriveJob

N = "persistent://acme/orders"
DEAD = f"{N}/placed-s-DLQ"
PAGE = "/tenants/acme/dead-letters"
FORM = {"redrive": "1", "redriven_max": "3", "rate": "0"}


@pytest.fixture(autouse=True)
def dead(browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a page counts all of them; how it goes on when it has no more time is a test of its own."""
    for module, name in ((dead_letters, "FIRST_SECONDS_MAX"), (letters, "SECONDS_MAX")):
        monkeypatch.setattr(module, name, 600.0)
    broker.real.add(DEAD)
    broker.real.add(f"{N}/bills-app-DLQ")
    for number in range(6):
        said = {"REAL_TOPIC": f"{N}/placed", "REAL_SUBSCRIPTION": "s", "DEAD_LETTER_REASON": ("late", "<odd>")[number % 2]}
        broker.real.publish_messages(DEAD, OutgoingMessage(b'{"order": %d}' % number, said, key=f"k{number}"))


def test_groups_lead_to_what_is_in_them_and_that_is_redriven(browse: Browse) -> None:
    owner = browse("owner")
    page = text(owner, PAGE)
    assert "6</strong> messages in 2 dead-letter topics" in page and "&lt;odd&gt;" in page
    assert "reason=late&amp;by=origin_subscription" in page
    narrowed = text(owner, f"{PAGE}?reason=late&by=outcome")
    assert f"to {N}/placed" in narrowed and "Without reason late" in narrowed and ">k1<" not in narrowed
    assert owner.post(f"{PAGE}?reason=late", {**FORM, "reason": "late"}).status_code == 302
    job = RedriveJob.unscoped.get()
    assert (job.topic, job.target, job.filter["reason"], job.filter["redriven_max"]) == (DEAD, "", "late", 3)
    assert job.id in text(owner, f"{PAGE}/redrives")
    assert owner.post(PAGE, {"decision": "pause"}).status_code == 302
    assert RedriveJob.unscoped.get().state == "paused"
    owner.post(PAGE, {"decision": "cancel", "job": job.id})
    assert RedriveJob.unscoped.get().state == "cancelled"
    nothing = owner.post(PAGE, {**FORM, "reason": "nobody's"}).content.decode()
    assert "Nothing matches" in nothing and RedriveJob.unscoped.count() == 1


def test_only_what_was_chosen_is_redriven(browse: Browse) -> None:
    owner = browse("owner")
    page = text(owner, PAGE)
    choice = page.split('name="chosen" value="')[2].partition('"')[0]
    assert owner.post(PAGE, {**FORM, "chosen": [choice]}).status_code == 302
    position = [int(number) for number in choice.rpartition(" ")[2].split(":")]
    assert RedriveJob.unscoped.get().filter["positions"] == [position]


def test_a_count_that_takes_several_requests_goes_on_where_it_stood(
    browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "FOUND_AT_ONCE", 2)
    monkeypatch.setattr(letters, "SECONDS_MAX", 0)
    monkeypatch.setattr(dead_letters, "FIRST_SECONDS_MAX", 0)
    owner = browse("owner")
    page, requests = text(owner, PAGE), 1
    while 'hx-get="/tenants/acme/dead-letters?' in page:
        more = page.partition('hx-get="/tenants/acme/dead-letters?')[2].partition('"')[0].replace("&amp;", "&")
        page = owner.get(f"{PAGE}?{more}", headers={"HX-Request": "true"}).content.decode()
        requests += 1
    assert requests > 3 and "6</strong> messages" in page and ">3 <span" in page


def test_a_count_is_tried_again_while_the_broker_is_away(browse: Browse, broker: ConsoleBroker) -> None:
    broker.cut()
    page = text(browse("owner"), PAGE, by="key")
    assert 'hx-get="/tenants/acme/dead-letters?by=key"' in page and "goes on by itself" in page
    broker.mend()
    part = browse("owner").get(f"{PAGE}?by=key", headers={"HX-Request": "true"}).content.decode()
    assert "6</strong> messages" in part and "goes on by itself" not in part


def test_what_the_broker_does_not_answer_is_not_known_and_not_none(browse: Browse, broker: ConsoleBroker) -> None:
    def silent(_: Any) -> NoReturn:
        raise NotReady("the broker did not respond in time: try again in a moment")

    broker.divert(REDRIVE_SCAN, silent)
    page = text(browse("owner"), PAGE)
    assert f"{DEAD} is not counted: the broker did not respond in time" in page
    assert "At least 0</strong> so far" in page and "Not known. " in page
    assert "No dead letters" not in page and ">None.<" not in page
    broker.divert(NAMES_SEARCH, silent)
    page = text(browse("owner"), PAGE)
    assert "How many there are is not known." in page and "This page goes on by itself" in page and "No dead letters" not in page


def test_groups_messages_and_redrives_are_pages_of_the_address(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_SHOWN", 4)
    owner = browse("owner")
    page = text(owner, f"{PAGE}?by=key&groups-sort=-value&groups-q=k&jobs-q=nobody")
    assert page.index(">k5</a>") < page.index(">k4</a>") < page.index(">k0</a>")
    assert "4 in the 4 entries looked at here" in page
    following = page.partition("Page 1 · <a href=")[2].partition('"')[2].partition("#")[0].replace("&amp;", "&")
    assert "groups-sort=-value" in following
    second = text(owner, f"{PAGE}{following}")
    assert second.count('name="chosen"') == 2 and 'rel="prev">' in second and page.index(">k5</a>") < page.index(">k0</a>")
    assert "No group matches" in text(owner, f"{PAGE}?groups-q=nothing")
    for reason in ("late", "<odd>"):
        assert owner.post(PAGE, {**FORM, "reason": reason}).status_code == 302
    jobs = text(owner, f"{PAGE}/redrives?jobs-sort=of&jobs-q=placed")
    assert jobs.count('value="pause"') == 3 and "No redrive matches" in text(owner, f"{PAGE}/redrives?jobs-q=nobody")
    owner.cookies[COOKIE] = "de"
    german = text(owner, f"{PAGE}?redriven_max=1&from_ms=x")
    assert "From_ms &#x27;x&#x27; ist keine Zahl." in german
    assert "Grund: late" in text(owner, f"{PAGE}/redrives") and "Läuft" in text(owner, f"{PAGE}/redrives")


def test_a_message_is_edited_and_goes_back(browse: Browse) -> None:
    owner = browse("owner")
    choice = text(owner, PAGE).split('name="chosen" value="')[1].partition('"')[0]
    message_id = choice.rpartition(" ")[2]
    edit = f"{NAMESPACE}/topics/placed-s-DLQ/redrives/edited/{message_id}"
    assert f'href="{edit}' in text(owner, f"{NAMESPACE}/topics/placed-s-DLQ/messages/{message_id}")
    assert "&quot;order&quot;: 0" in text(owner, edit)
    assert AuditRecord.unscoped.filter(action="message.read").exists()
    form = {"payload": '{"order": 7}', "encoding": "text", "key": "k0", "properties": "kind=mended"}
    assert owner.post(edit, form).status_code == 302
    job = RedriveJob.unscoped.get()
    assert job.edit["properties"] == {"kind": "mended"} and len(job.filter["positions"]) == 1
    assert browse("teammate").get(edit).status_code == 403
    assert browse("teammate").get(PAGE).status_code == 403


def test_looking_through_them_leaves_records(browse: Browse, broker: ConsoleBroker) -> None:
    """Also where a form is shown again, but none while the broker is away."""
    owner, looks = browse("owner"), AuditRecord.unscoped.filter(action="message.browse", tenant="acme").order_by("id")
    text(owner, f"{PAGE}?by=key&key=k1")
    assert owner.post(f"{PAGE}?key=k2", {**FORM, "rate": "no number"}).status_code == 200
    broker.cut()
    text(owner, f"{PAGE}?by=key")
    assert [look.after for look in looks] == [{"query": "by=key&key=k1"}, {"query": "key=k2"}]


def test_what_makes_no_sense_is_said_on_the_page(browse: Browse) -> None:
    assert "is not the full name of a persistent topic of acme" in text(browse("owner"), f"{PAGE}?topic=placed")


def test_times_that_no_calendar_has_do_no_harm(browse: Browse, broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers and filters may say any: one such message, or redrive, made a page of the tenant fail for everybody."""

    def of_another_age(message: OutgoingMessage, producer_id: int, producer_name: str, sequence_id: int, now_ms: int) -> bytes:
        return message_frame(message, producer_id, producer_name, sequence_id, 2**64 - 1)

    monkeypatch.setattr(producer, "message_frame", of_another_age)
    broker.real.publish_messages(DEAD, OutgoingMessage(b"{}", {"REAL_TOPIC": f"{N}/placed", "REAL_SUBSCRIPTION": "s"}, key="odd"))
    owner = browse("owner")
    for query in ("by=day", "by=hour", f"until_ms={10**18 - 1}", f"from_ms={10**17}", f"from_ms={'9' * 5_000}"):
        text(owner, f"{PAGE}?{query}")
    assert "9999-12-31" in text(owner, f"{PAGE}?by=day")
    assert owner.post(PAGE, {**FORM, "until_ms": str(10**18 - 1)}).status_code == 302
    assert "9999-12-30" in text(owner, f"{PAGE}/redrives")
    for position in (f"{10**30}:0", f"0:{2**63}"):
        assert owner.post(PAGE, {**FORM, "chosen": [f"{DEAD} {position}"]}).status_code == 200


def test_a_redrive_of_texts_that_postgresql_does_not_keep_is_refused(browse: Browse, broker: ConsoleBroker) -> None:
    said = {"REAL_TOPIC": f"{N}/placed", "REAL_SUBSCRIPTION": "s", "DEAD_LETTER_REASON": "cut\x00off"}
    broker.real.publish_messages(DEAD, OutgoingMessage(b"{}", said, key="odd\x00key"))
    owner = browse("owner")
    page = text(owner, PAGE)
    assert "\x00" not in page and "cut\ufffdoff" in page and "odd\ufffdkey" in page
    assert "NUL character" in owner.post(PAGE, {**FORM, "reason": "cut\x00off"}).content.decode()
    assert not RedriveJob.unscoped.exists()
