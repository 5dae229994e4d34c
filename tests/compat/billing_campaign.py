"""The billing campaign: what stock clients sent and received is billed, though broker, worker and Spark are killed meanwhile.

    python -m tests.compat.billing_campaign --rounds 3 --seed 7

A whole platform in a directory of its own; two tenants, each with two namespaces, a plan of one cent a message, stock clients that
send singly and in batches, consumers that have some messages redelivered, and dead letters. In each round the broker is killed with
usage that is not written, and once while messages are on their way. Then usage is computed by the real job: its Spark process is
killed, and then the worker; the worker that comes next takes the work up. In the end each line of each invoice is what the clients
wrote down, but for what lies in the outages that the platform tells of, whose bounds are those of the kills.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.finding import BrokerChoice
from messaging.adminrpc.methods import USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from messaging.identity import service_token
from messaging.settings import Settings
from tests.compat.billing_traffic import SUBSCRIPTION, Traffic, expected, now_ms, reconnected, settle
from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync
from workers.findings.outages import Outage, outages_below

TENANTS = ("first", "second")
METERS = ("messages_in", "messages_out")
SPARK_S = 400.0  # one run, also where the lease of a worker that was killed must end before it
PLAN = {
    "plan": "campaign", "version": 1, "currency": "EUR", "in_force_from": "2026-01-01T00:00:00Z",
    "prices": [{"meter": meter, "unit": "message", "price": "0.01"} for meter in METERS],
}  # fmt: skip
BILL = f"""
import json
from datetime import UTC, datetime
from django.conf import settings
from tenants.access import platform_actor
from tenants.scoping import platform_scope
from workers.billing import actions
from workers.billing.models import Invoice
from workers.environment import environment_of
from workers.findings.models import UsageFinding
from workers.rating.rate import month_of
from workers.tasks.billing import make_invoices
actor, now = platform_actor(), datetime.now(UTC)
actions.publish_plan(actor, {PLAN!r})
for tenant in {TENANTS!r}:
    actions.assign_plan(actor, tenant, "campaign", month_of(now)[0])
done = make_invoices(environment_of(settings.MAGNETAR), "campaign", lambda **progress: None)
with platform_scope():
    invoices = {{row.tenant: row.document["lines"] for row in Invoice.objects.all()}}
    outages = list(UsageFinding.objects.filter(kind="outage").order_by("from_at").values_list("from_at", "until_at").distinct())
print(json.dumps({{
    "failed": done["failed"], "lines": invoices, "outages": [[round(at.timestamp() * 1000) for at in one] for one in outages],
}}))
"""


class Campaign:
    def __init__(self, platform: Standalone, stock: Stock, chance: Random) -> None:
        self.platform, self.chance = platform, chance
        self.traffic = Traffic(stock, platform.admin_token)
        self.topics = [f"persistent://{tenant}/{name}/orders" for tenant in TENANTS for name in ("one", "two")]
        settings = Settings(data_dir=str(platform.folder))
        self.rpc = AdminRpc(BrokerChoice(settings).rpc_url, lambda: service_token(settings, "worker"), 60.0)
        self.kills: list[tuple[float, float]] = []  # from the last thing before, until it was back

    def prepare(self) -> None:
        for tenant in TENANTS:
            self._post("", {"name": tenant})
            for name in ("one", "two"):
                self._post(f"/{tenant}/namespaces", {"name": name})
        self.consumers = {topic: self.traffic.consumer(topic) for topic in self.topics}
        self.letters = f"persistent://{TENANTS[0]}/one/letters"
        self.rejecting = self.traffic.consumer(self.letters)
        path = f"/{TENANTS[0]}/namespaces/one/topics/letters/subscriptions/{SUBSCRIPTION}/dead-letter-policy"
        self._post(path, {"max_redeliver_count": 1, "initial_subscription": SUBSCRIPTION}, "PUT")

    def _post(self, path: str, body: dict[str, Any], method: str = "POST") -> None:
        answer = self.platform.http(method, f"/api/v1/tenants{path}", body, self.platform.admin_token)
        assert answer.status in (200, 201), answer.text

    def exchange(self, topics: list[str]) -> None:
        """All that is sent is received; some of it twice."""
        for topic in topics:
            started_ms = now_ms()
            counts = [self.chance.randrange(20, 200) for _ in range(2)]
            for count, batch in zip(counts, (False, True), strict=True):
                self.traffic.publish(topic, count, batch=batch).wait()
            self.traffic.receive(self.consumers[topic], sum(counts), started_ms, reject=self.chance.randrange(1, 9))

    def dead_letters(self) -> None:
        """Some messages are rejected until they are dead letters, which the broker moves and a client reads."""
        started_ms, count = now_ms(), self.chance.randrange(3, 12)
        self.traffic.publish(self.letters, count).wait()
        for _ in range(2 * count):
            self.traffic.take(self.rejecting, started_ms).reject()
        graves = self.traffic.consumer(f"{self.letters}-{SUBSCRIPTION}-DLQ")
        self.traffic.receive(graves, count, started_ms)
        self.traffic.moved(f"{self.letters}-{SUBSCRIPTION}-DLQ", count, started_ms)
        graves.close()

    def flush(self) -> None:
        self.rpc.call(USAGE_FLUSH, UsageFlush(task_id="campaign"))

    def kill_broker(self) -> None:
        before_ms = now_ms()
        self.platform.kill_child("broker")
        self.kills.append((before_ms, now_ms()))

    def round(self) -> None:
        self.exchange(self.topics)
        self.dead_letters()
        self.flush()
        self.exchange(self.chance.sample(self.topics, 2))  # in the hole
        settle(self.platform, [*self.topics, self.letters])
        topic = self.chance.choice(self.topics)
        publishing = self.traffic.publish(topic, 2_000)
        publishing.wait(left=self.chance.randrange(100, 1_900))
        self.kill_broker()
        publishing.wait()
        reconnected(self.platform, [*self.topics, self.letters])
        for consumer in [*self.consumers.values(), self.rejecting]:
            self.traffic.drain(consumer, now_ms())
        self.exchange(self.topics)
        self.flush()

    def compute(self) -> str:
        """A run of the job whose Spark is killed, then its worker; and the run that takes it up. The run that succeeded."""
        first = self._ask()
        pid = eventually_sync(self._spark, 120) or 0
        os.kill(pid, signal.SIGKILL)
        print(f"  killed Spark (process {pid}) of run {first}", flush=True)
        eventually_sync(lambda: self._spark() not in (None, pid), SPARK_S)  # the same run, once more
        os.kill(self.platform.child("worker")["pid"], signal.SIGKILL)
        print("  killed the worker", flush=True)

        def succeeded() -> str:
            self._ask()
            look = "print(UsageRun.objects.filter(outcome='succeeded').values_list('run_id').last() or '')"
            return self.platform.run_python(f"from workers.models import UsageRun\n{look}")

        run_id = eventually_sync(succeeded, SPARK_S)
        self._wait_for(self._ask())  # what came while the other ran
        return run_id

    def _ask(self) -> str:
        return self.platform.run_python(
            "from workers.requests import request_usage_run\ntry: print(request_usage_run('campaign'))\nexcept Exception: print('')"
        )

    def _wait_for(self, run: str) -> None:
        look = f"from workers.models import UsageRun; run = UsageRun.objects.get(run_id={run!r}); print(run.outcome, run.message)"

        def ended() -> str:
            text = self.platform.run_python(look)
            assert text.split()[0] not in ("requested", "running"), text
            return text

        assert eventually_sync(ended, SPARK_S).split()[0] in ("succeeded", "skipped")

    def _spark(self) -> int | None:
        """The process of the job, if it runs and has begun to work."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"spark_jobs.hourly_usage" in words and any(str(self.platform.folder).encode() in word for word in words):
                return int(path.parent.name)
        return None

    def check(self) -> dict[str, Any]:
        """Raises `AssertionError` for the first line that is not what the clients wrote down."""
        told = json.loads(self.platform.run_python(BILL).splitlines()[-1])
        assert not told["failed"], told["failed"]
        raw = self.platform.folder / "usage" / "raw"
        outages = outages_below(raw)
        self._check_outages(outages, told["outages"])
        exact = True
        summary: dict[str, Any] = {}
        for tenant in TENANTS:
            lines = {line["meter"]: line for line in told["lines"][tenant] if line["kind"] == "usage"}
            for meter, seen in zip(METERS, (self.traffic.sent, self.traffic.received), strict=True):
                shares: dict[str, tuple[int, int, int]] = {}
                for topic, events in seen.items():
                    namespace = topic.split("://")[1].rpartition("/")[0]
                    if namespace.startswith(f"{tenant}/"):
                        least, most = expected(events, outages)
                        had = shares.get(namespace, (0, 0, 0))
                        shares[namespace] = (had[0] + least, had[1] + most, had[2] + len(events))
                billed = {share["namespace"]: share["quantity"] for share in lines[meter]["namespaces"]}
                for namespace, (least, most, carried) in shares.items():
                    assert least <= billed[namespace] <= most, (meter, namespace, billed[namespace], least, most, carried)
                    exact &= least == most
                    summary[f"{namespace} {meter}"] = (carried, billed[namespace])
                assert billed.keys() == shares.keys() and lines[meter]["quantity"] == sum(billed.values())
                assert round(float(lines[meter]["amount"]) * 100) == lines[meter]["quantity"]
        return {"exact": exact, "outages": len(outages), "lines": summary}

    def _check_outages(self, outages: list[Outage], told: list[list[int]]) -> None:
        assert len(outages) == len(self.kills), (outages, self.kills)
        for outage, (before_ms, after_ms) in zip(outages, self.kills, strict=True):
            assert outage.from_ms <= before_ms < outage.until_ms <= after_ms, (outage, before_ms, after_ms)
        assert sorted(told) == [[outage.from_ms, outage.until_ms] for outage in outages]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill broker, Spark and worker, and hold the invoices against what clients saw.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    print(f"{chosen.rounds} rounds, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"MAGNETAR_USAGE_JOB_INTERVAL_S": "86400", "MAGNETAR_REPEAT_INTERVAL_S": "5", "MAGNETAR_SPARK_ROWS_MIN": "0"}
        platform = Standalone(Path(folder, "data"), **settings)
        stock = None
        try:
            platform.start()
            stock = Stock(platform.ready["broker_url"], Path(folder, "client.log"))
            campaign = Campaign(platform, stock, Random(chosen.seed))
            campaign.prepare()
            for number in range(chosen.rounds):
                campaign.round()
                print(f"round {number + 1}: {sum(map(len, campaign.traffic.sent.values()))} sent, "
                      f"{sum(map(len, campaign.traffic.received.values()))} received", flush=True)  # fmt: skip
            campaign.compute()
            result = campaign.check()
            campaign.rpc.close()
        finally:
            if stock is not None:
                stock.close()
            platform.close()
    for name, (carried, billed) in result["lines"].items():
        print(f"  {name}: clients {carried}, billed {billed}, in outages {carried - billed}")
    within = "" if result["exact"] else ", or within bounds, where an outage began in the middle of something"
    print(f"kept: every line is what clients saw{within}, but for {result['outages']} outages (seed {chosen.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
