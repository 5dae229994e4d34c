"""All dead letters of a tenant go back where they came from, on two brokers, while brokers and worker are killed.

    python -m tests.compat.redrive_way_back --letters 100000 --kills 4 --seed 7

Letters of two partitions of a dead-letter topic came from eight topics, which two brokers share; some do not say where from, and
some another namespace. One request redrives them, and again and again with its idempotency key, while the pages of dead letters are
looked at. In the end each letter is at its topic once, or stayed with its reason, and the counts of the jobs are these.
Before it begins the dry run says the same. In the middle the jobs are paused, stand still, and are resumed. With a rate they are
no faster than that.

What is written here is on disk: a killed process loses none of it. A kill takes no machine away.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pulsar

from tests.compat.stock import RECEIVE_MS, Stock
from tests.support.brokers.standalone import Answer, Standalone
from tests.support.console_reader import Browser
from tests.support.waiting import eventually_sync

LETTERS = "persistent://public/default/orders-DLQ"
TENANT = "/api/v1/tenants/public"
TOPICS = [f"persistent://public/default/orders-{number}" for number in range(8)]
NOWHERE, ELSEWHERE, EVERY = "nowhere", "persistent://public/other/orders", 50  # one of so many letters says each of these
PARTITIONS = 2
OUTCOMES_OF_TENANT_MAX = 20_000  # that are kept: the newest (workers.redrive.task)
DONE_S = 1_800.0


def origin_of(number: int) -> str:
    if number % EVERY == 0:
        return NOWHERE
    return ELSEWHERE if number % EVERY == 1 else TOPICS[number % len(TOPICS)]


class Onlooker:
    """Somebody who looks at the page of dead letters and its redrives all the time. `answers`: path -> status and seconds."""

    def __init__(self, platform: Standalone) -> None:
        self.answers: dict[str, list[tuple[int, float]]] = {"page": [], "groups": [], "redrives": []}
        self._platform, self._closed = platform, threading.Event()
        self._browser = Browser(platform.ready["web_url"])
        self._browser.sign_in("admin", platform.console_password)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(1.0):
            self._timed("page", lambda: self._browser.get("/tenants/public/dead-letters") and 200)
            for name, path in (("groups", "dead-letters?by=outcome"), ("redrives", "dead-letters/redrives")):
                self._timed(
                    name, lambda path=path: self._platform.http("GET", f"{TENANT}/{path}", token=self._platform.admin_token).status
                )

    def _timed(self, name: str, ask: Any) -> None:
        begun_s = time.monotonic()
        try:
            status = int(ask())
        except OSError as error:
            status = getattr(error, "code", 0)
        self.answers[name].append((status, time.monotonic() - begun_s))

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for name, answers in self.answers.items():
            if not answers:
                continue
            seconds = sorted(seconds for _, seconds in answers)
            print(
                f"{name}: {len(answers)} times, {dict(Counter(status for status, _ in answers))}, median "
                f"{statistics.median(seconds):.2f} s, longest {seconds[-1]:.2f} s"
            )


class Processes:
    """Seconds of a processor that they used since this was made, and the most memory that one had; what was used between the last
    look and a kill is missing."""

    def __init__(self, platform: Standalone) -> None:
        self._platform = platform
        self._used_s: dict[tuple[str, int], tuple[float, float]] = {}  # by name and pid: at the first look, at the last one
        self._mib_max: dict[str, float] = {}
        self.look()

    def look(self) -> None:
        for name in ("broker", "broker-2", "worker", "web"):
            pid = self._platform.child(name)["pid"]
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                peak = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]
            except (OSError, IndexError):  # it was killed, and another one is about to come
                continue
            used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            first_s, _ = self._used_s.get((name, pid), (used_s if not self._used_s else 0.0, 0.0))
            self._used_s[name, pid] = (first_s, used_s)
            self._mib_max[name] = max(self._mib_max.get(name, 0.0), int(peak) / 1024)

    def __str__(self) -> str:
        used_s: dict[str, float] = defaultdict(float)
        for (name, _), (first_s, last_s) in self._used_s.items():
            used_s[name] += last_s - first_s
        return ", ".join(
            f"{name} {used_s[name]:.0f} s of a processor, {mib:.0f} MiB at most" for name, mib in self._mib_max.items()
        )


def publish(client: pulsar.Client, letters: int) -> None:
    """One by one, so that each is an entry; many are on their way at once."""
    failed: list[Any] = []
    producer = client.create_producer(LETTERS, batching_enabled=False, block_if_queue_full=True, max_pending_messages=1000)
    for number in range(letters):
        origin = origin_of(number)
        properties = {} if origin == NOWHERE else {"REAL_TOPIC": origin, "REAL_SUBSCRIPTION": "app"}
        producer.send_async(
            b"%d" % number, lambda result, _: None if result == pulsar.Result.Ok else failed.append(result), properties=properties
        )
    producer.flush()
    producer.close()
    assert not failed, failed[:3]


def run(platform: Standalone, stock: Stock, letters: int, kills: int, chance: Random, rate: int = 0) -> None:
    """Raises `AssertionError` for the first promise that was broken."""
    token = platform.admin_token
    made = platform.http("POST", f"{TENANT}/namespaces/default/topics", {"name": "orders-DLQ", "partitions": PARTITIONS}, token)
    assert made.status == 201, made.text
    client = stock.client(token)
    for topic in (*TOPICS, LETTERS):
        client.subscribe(topic, "keeper").close()  # keeps what is published, to be looked at
    publish(client, letters)
    print(f"published {letters} letters", flush=True)
    wanted = Counter(origin_of(number) for number in range(letters))
    stay = wanted[NOWHERE] + wanted[ELSEWHERE]
    planned = _groups(platform)
    assert {f"to {topic}": planned.pop(f"to {topic}") for topic in TOPICS} == {f"to {topic}": wanted[topic] for topic in TOPICS}
    assert sum(planned.values()) == stay and all(value.startswith("stays: ") for value in planned), planned
    onlooker, body = Onlooker(platform), {"idempotency_key": "way-back", "rate": rate}
    processes = Processes(platform)
    begun_s = time.monotonic()
    try:
        jobs = {job["id"]: job["topic"] for job in _post(platform, body)["started"]}
        assert len(jobs) == PARTITIONS, jobs
        eventually_sync(lambda: _moved(platform, jobs) > 0, DONE_S)
        _pause_and_resume(platform, jobs)
        for number in range(kills):
            goal = letters * (number + 1) // (kills + 1)
            eventually_sync(partial(_reached, platform, jobs, goal), DONE_S)
            threading.Event().wait(chance.uniform(0, 0.5))
            what = ("broker", "worker", "broker-2", "web")[number % 4]
            processes.look()
            print(f"kill {what} after {_moved(platform, jobs)} letters, {time.monotonic() - begun_s:.0f} s", flush=True)
            os.kill(platform.child(what)["pid"], signal.SIGKILL)
            eventually_sync(lambda: _again(platform, body) == jobs.keys(), DONE_S)
        eventually_sync(lambda: {state["state"] for state in _states(platform, jobs)} == {"done"}, DONE_S)
        took_s = time.monotonic() - begun_s
        processes.look()
    finally:
        onlooker.close()
    assert not rate or took_s >= 0.9 * (letters - stay) / (rate * PARTITIONS) - 1, f"{took_s:.1f} s"
    assert _moved(platform, jobs) == letters - stay, _states(platform, jobs)
    assert sum(state["left"] for state in _states(platform, jobs)) == stay, _states(platform, jobs)
    for topic in TOPICS:
        reader, found = client.create_reader(topic, pulsar.MessageId.earliest), Counter[int]()
        while reader.has_message_available():
            found[int(reader.read_next(RECEIVE_MS).data())] += 1
        reader.close()
        expected = Counter(number for number in range(letters) if origin_of(number) == topic)
        missing, more = expected - found, found - expected
        assert found == expected, f"{topic}: {len(missing)} missing, {len(more)} too many: {[*missing][:5]} {[*more][:5]}"
    groups = dict(_groups(platform))
    assert sum(groups.values()) == stay, groups
    assert all(value.startswith("stays: ") for value in groups), groups
    outcomes = _outcomes(platform, jobs)
    assert outcomes == min(letters, OUTCOMES_OF_TENANT_MAX), f"{outcomes} outcomes of {letters} letters"
    print(processes)
    print(f"moved {letters - stay} letters in {took_s:.0f} s, {(letters - stay) / took_s:.0f} a second; {stay} stayed: {groups}")


def _pause_and_resume(platform: Standalone, jobs: dict[str, str]) -> None:
    """What is under way when a job is paused is finished, and then it stands still."""
    _decide(platform, jobs, "pause")
    stood = [-1]

    def stands() -> bool:
        stood.append(_moved(platform, jobs))
        return len(stood) > 3 and stood[-1] == stood[-2] == stood[-3]

    eventually_sync(stands, DONE_S)
    assert {state["state"] for state in _states(platform, jobs)} <= {"paused", "done"}
    threading.Event().wait(2.0)
    assert _moved(platform, jobs) == stood[-1]
    _decide(platform, jobs, "resume")


def _decide(platform: Standalone, jobs: dict[str, str], decision: str) -> None:
    for job, topic in jobs.items():
        path = f"{TENANT}/namespaces/default/topics/{topic.rpartition('/')[2]}/redrives/{job}/{decision}"
        answer = platform.http("POST", path, {}, platform.admin_token)
        assert answer.status in (200, 412), answer.text  # it may be done already


def _groups(platform: Standalone) -> Counter[str]:
    """Messages by what would become of them: the dry run."""
    found, after = Counter[str](), ""
    while True:
        answer = platform.http("GET", f"{TENANT}/dead-letters?by=outcome{after}", token=platform.admin_token)
        assert answer.status == 200, answer.text
        page = answer.json()
        assert not page["left_out"], page
        for group in page["groups"]:
            found[group["value"]] += group["messages"]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


def _post(platform: Standalone, body: dict[str, Any]) -> dict[str, Any]:
    answer = platform.http("POST", f"{TENANT}/dead-letters/redrives", body, platform.admin_token)
    assert answer.status == 201, answer.text
    started: dict[str, Any] = answer.json()
    return started


def _asked(platform: Standalone, method: str, path: str, body: Any = None) -> Answer:
    """Raises `AssertionError` while the web process is away: whoever waits asks again."""
    try:
        return platform.http(method, path, body, platform.admin_token)
    except OSError as error:
        raise AssertionError(f"{path}: {error}") from None


def _again(platform: Standalone, body: dict[str, Any]) -> set[str]:
    """The ids that the same key has; none while the platform cannot say. A topic of which nothing is left has none any more."""
    answer = _asked(platform, "POST", f"{TENANT}/dead-letters/redrives", body)
    return {job["id"] for job in answer.json()["started"]} if answer.status == 201 else set()


def _states(platform: Standalone, jobs: dict[str, str]) -> list[dict[str, Any]]:
    states = []
    for job, topic in jobs.items():
        local = topic.rpartition("/")[2]
        path = f"{TENANT}/namespaces/default/topics/{local}/redrives/{job}"
        answer = _asked(platform, "GET", path)
        assert answer.status == 200, answer.text
        states.append(answer.json())
    return states


def _outcomes(platform: Standalone, jobs: dict[str, str]) -> int:
    """How many there are, each of another letter."""
    found: set[tuple[str, str]] = set()
    for job, topic in jobs.items():
        path, after = f"{TENANT}/namespaces/default/topics/{topic.rpartition('/')[2]}/redrives/{job}/outcomes?limit=500", ""
        while True:
            answer = platform.http("GET", path + after, token=platform.admin_token)
            assert answer.status == 200, answer.text
            page = answer.json()
            found |= {(topic, row["message_id"]) for row in page["items"]}
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
    return len(found)


def _reached(platform: Standalone, jobs: dict[str, str], goal: int) -> bool:
    return _moved(platform, jobs) >= goal


def _moved(platform: Standalone, jobs: dict[str, str]) -> int:
    return sum(int(state["moved"]) for state in _states(platform, jobs))


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill brokers and worker while all dead letters of a tenant go back.")
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--rate", type=int, default=0, help="messages a second that each of the two jobs may move")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    print(f"{chosen.letters} letters, {chosen.kills} kills, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"MAGNETAR_REPEAT_INTERVAL_S": "2", "MAGNETAR_USAGE_JOB_INTERVAL_S": "86400"}
        platform = Standalone(Path(folder, "data"), "--brokers", "2", **settings)
        stock = None
        try:
            platform.start()
            stock = Stock(platform.ready["broker_url"], Path(folder, "client.log"))
            run(platform, stock, chosen.letters, chosen.kills, Random(chosen.seed), chosen.rate)
        finally:
            if stock is not None:
                stock.close()
            platform.close()
    print(f"kept: each of {chosen.letters} letters is at its topic once, or stayed with its reason (seed {chosen.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
