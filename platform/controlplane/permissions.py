"""The permission table of the web process: the rows of all applications, put together.

A test enumerates Django's URL configuration and fails on a route that has no row here, and on a row that no route answers to.
"""

from __future__ import annotations

from admin_ui import audited
from admin_ui import permissions as console
from admin_ui.sign_in.rest import permissions as people
from messaging.permissions.model import Action
from tenants.pulsar import permissions as pulsar
from tenants.rest import permissions as api
from workers.rest import permissions as workers

_PROCESSES: dict[tuple[str, str], Action] = {
    ("GET", "internal:feed"): Action.SERVICE,
    ("GET", "health:live"): Action.PUBLIC,
    ("GET", "health:ready"): Action.PUBLIC,
    ("GET", "health:metrics"): Action.PUBLIC,  # sums only: no name of any tenant
    ("GET", "health:status"): Action.PUBLIC,
}

REST: dict[tuple[str, str], Action] = api.ACTIONS | workers.ACTIONS | people.ACTIONS | pulsar.ACTIONS | _PROCESSES
CONSOLE: dict[tuple[str, str], Action] = console.CONSOLE

# Every route that changes something, and every one that shows what messages hold: the name of its record in the audit log.
# A request that was allowed is recorded when it was carried out; one that was refused is recorded as `denied`, whatever its route.
AUDITED: dict[tuple[str, str], str] = api.AUDITED | workers.AUDITED | people.AUDITED | pulsar.AUDITED | audited.AUDITED
PAYLOAD_READS = pulsar.PAYLOAD_READS | api.PAYLOAD_READS | workers.PAYLOAD_READS | audited.PAYLOAD_READS
QUESTIONS = api.QUESTIONS | workers.QUESTIONS | pulsar.QUESTIONS
