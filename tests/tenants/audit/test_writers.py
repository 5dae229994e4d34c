"""Several writers of the audit log at once."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from tenants.audit.chain import append
from tenants.audit.log_reading import verify
from tenants.models import AuditRecord

WRITERS, EACH = 3, 15


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_make_one_chain() -> None:
    begin = threading.Barrier(WRITERS)
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            begin.wait(10)
            for number in range(EACH):
                uid = str(number % 2)
                append([AuditRecord(role=f"r{writer}", action="a", resource="x", tenant_uid=uid) for _ in range(2)])
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    report = verify()
    assert (report.problems, report.records) == ([], WRITERS * EACH * 2)
