"""A random life in the database, beside a tenant whose plan is wrong: its books balance as those of lives in memory do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest

from messaging.errors import PreconditionFailed
from messaging.settings import Settings
from tenants.access import platform_actor
from tests.support.billing.account_books import Terms
from tests.support.billing.account_lives import BEGIN, live
from tests.support.billing.billing_rows import GIB, HOUR, PLAN, run_of, tenant_of, use, with_plan
from tests.support.billing.pure_account import plan_document
from tests.support.brokers.worker_broker import WorkerBroker
from workers.billing import actions
from workers.billing.models import Invoice
from workers.environment import Environment
from workers.tasks.billing import make_invoices

pytestmark = pytest.mark.django_db


class DatabaseAccount:
    """Implements `account_lives.Account`."""

    def __init__(self, settings: Settings, broker: WorkerBroker, tax_rate: str, forgiven: int) -> None:
        self._settings, self._broker, self._actor = settings, broker, platform_actor()
        self._tenant = tenant_of()
        actions.set_issuer(self._actor, {}, forgiven)
        actions.set_account(self._actor, "acme", {"tax_label": "VAT", "tax_rate": tax_rate})

    def assign(self, terms: Terms, starts_at: datetime) -> None:
        with_plan(self._tenant, plan_document(terms), starts_at)

    def use(self, hour: datetime, quantity: int, run: str) -> None:
        use(self._tenant, hour, run, messages_in=quantity)

    def grant(self, amount: str, currency: str, expires: str) -> str:
        expires_on = date.fromisoformat(expires) if expires else None
        return str(actions.grant_credit(self._actor, "acme", "Credit", currency, amount, expires_on).pk)

    def take_back(self, number: str, amounts: dict[str, str] | None, now: datetime) -> bool:
        try:
            actions.take_back(self._actor, "acme", number, amounts, "wrong", now)
        except PreconditionFailed:
            return False
        return True

    def bill(self, now: datetime) -> None:
        run_of(f"complete-{now:%Y-%m-%dT%H}", now)
        done = make_invoices(Environment(self._settings, self._broker, now=lambda: now), "task-1", lambda **progress: None)
        assert set(done["failed"]) <= {"a-dear-one"}

    def _invoices(self, **values: str) -> Any:
        return Invoice.unscoped.filter(tenant_uid=self._tenant.uid, **values)

    def finals(self) -> list[dict[str, Any]]:
        rows = self._invoices(state="final").order_by("number")
        return list(rows.values_list("document", flat=True))

    def drafts(self) -> list[dict[str, Any]]:
        return list(self._invoices(state="draft").order_by("start", "currency").values_list("document", flat=True))


@pytest.mark.parametrize("seed", ["database/1"])
def test_books_of_a_life_in_the_database_balance(seed: str, settings_of: Callable[..., Settings], broker: WorkerBroker) -> None:
    dear = tenant_of("a-dear-one")
    with_plan(dear, {**PLAN, "plan": "per-byte", "prices": [{"meter": "bytes_in", "unit": "byte", "price": "50"}]}, BEGIN - HOUR)
    use(dear, BEGIN - HOUR, bytes_in=GIB)
    life = live(seed, lambda tax_rate, forgiven: DatabaseAccount(settings_of(), broker, tax_rate, forgiven), months=8)
    assert life.posted >= 8
