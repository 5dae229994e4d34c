"""The pages of redrives: a dry run, a start, and what became of the messages."""

from __future__ import annotations

from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from workers.redrive.models import RedriveJob, RedriveOutcome

DEAD, TARGET = "persistent://acme/orders/dead", "persistent://acme/orders/placed"
PAGE = f"{NAMESPACE}/topics/dead/redrives"


def test_a_redrive_is_looked_at_started_and_paused(browse: Browse, broker: ConsoleBroker) -> None:
    broker.real.add(DEAD)
    broker.real.add(TARGET)
    broker.real.publish(DEAD, b"1", b"2")
    owner = browse("owner")
    form = {"target": TARGET, "subscription": "redrive", "redriven_max": "3", "rate": "0"}
    looked = owner.post(PAGE, {**form, "dry_run": "1"}).content.decode()
    assert "2 messages in 2 entries" in looked and not RedriveJob.unscoped.exists()
    assert owner.post(PAGE, form).status_code == 302
    job = RedriveJob.unscoped.get()
    assert (job.rate, job.filter["redriven_max"], job.owner) == (0, 3, "tenant:acme")
    RedriveOutcome.objects.create(job=job, ledger_id=7, entry_id=0, messages=1, why="it was redriven too often", step=1)
    assert TARGET in text(owner, PAGE) and TARGET in text(owner, f"{PAGE}/detail")
    page = text(owner, f"{PAGE}/{job.id}")
    assert "7:0" in page and "stays: it was redriven too often" in page and 'value="pause"' in page
    assert owner.post(f"{PAGE}/{job.id}", {"decision": "pause"}).status_code == 302
    assert 'value="resume"' in text(owner, f"{PAGE}/{job.id}")
    assert browse("teammate").get(PAGE).status_code == 403
    assert "full name of a topic" in owner.post(PAGE, {**form, "target": "nowhere"}).content.decode()
