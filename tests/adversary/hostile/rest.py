"""REST visits of a tenant with a key: legal and nearly legal paths, queries and bodies, at their extremes. Seeded.

    python -m tests.adversary.hostile.rest --visits 5000 --seed 7

A whole platform answers them, beside a neighbour that publishes, receives and asks all the while. An error that says what is wrong
is an answer like any other. No answer is 5xx, but 501 for what is not offered and a 503 that says why; none holds anything of the
neighbour, whose names have a word in them that the visitor does not know; every process is the one that it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import django
from django.conf import settings

from tests.adversary.hostile.peers import SERVED_S, Canary, NotServed
from tests.support.brokers.standalone import Standalone

VISITORS = 3  # at a time
REQUESTS_A_VISIT = 20
GUEST, NEIGHBOUR = "guest", "neighbour"
ANSWER_BYTES_MAX = 8 << 20

NUMBERS = ["0", "1", "-1", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "9" * 40, "1e9", "NaN", "0x1"]
TEXTS = ["", " ", "a", "é", "𝄞" * 60, "a" * 255, "a" * 256, "a/b", "..", "%", "%2F", "\x00", "a\r\nb: c", "<b>", "{}", "null", "*"]
QUERIES = ["force", "limit", "after", "cursor", "from", "to", "since", "until", "granularity", "authoritative", "subscription"]
QUERIES += ["perPartition", "format", "group_by", "label", "getPreciseBacklog", "unknown", "dryRun", "bundle", "messagePosition"]
FIELDS = ["name", "topic", "namespace", "policies", "partitions", "ledgerId", "entryId", "properties", "roles", "actions", "policy"]
FIELDS += ["retentionTimeInMinutes", "retentionSizeInMB", "limitSize", "limitTime", "type", "schema", "target", "amount", "url"]
INTEGERS = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63), 10**40]
OWN = {
    "tenant": [GUEST],
    "namespace": ["house"],
    "domain": ["persistent", "non-persistent"],
    "kind": ["topics"],
    "topic": ["room-0", "room-1", "parts", "parts-partition-0"],
    "subscription": ["s", "a"],
    "role": ["r", GUEST],
    "cluster": ["standalone"],
}
NEIGHBOURS = {"tenant": [NEIGHBOUR], "namespace": ["house"], "topic": ["room-0"], "subscription": ["s"]}
BODIES = ("PUT", "POST", "PATCH", "DELETE")
Shape = dict[str, Any]


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None


class Visited(NamedTuple):
    requests: int
    routes: int  # different ones that were asked for
    statuses: Counter[int]
    songs: int
    longest_ask_s: float


def templates() -> list[tuple[str, str]]:
    """(method, path with its parameters as ``<converter:name>``) of every row of the permission table."""
    from tests.support.rest_routes import templates as every  # needs Django

    return [(method, path) for method, path, _ in every()]


class Requests:
    """What visitors ask. `shapes`: the bodies of the OpenAPI document, by method and path."""

    def __init__(self, seed: int, document: Shape) -> None:
        self._chance = random.Random(seed)
        self._routes = templates()
        self._document = document

    def next(self) -> tuple[str, Request]:
        """A route and a request to it."""
        chance = self._chance
        method, template = chance.choice(self._routes)
        names = OWN | (NEIGHBOURS if chance.random() < 0.15 else {})
        path = re.sub(r"<\w+:(\w+)>", lambda found: self._part(found[1], names), template)
        query = "&".join(
            f"{quote(chance.choice(QUERIES))}={quote(chance.choice([*NUMBERS, *TEXTS, 'true', 'false']))}"
            for _ in range(chance.choice([0, 0, 0, 1, 1, 2]))
        )
        body = self._body(method, template) if method in BODIES and chance.random() < 0.9 else None
        return f"{method} {template}", Request(method, path + "?" * bool(query) + query, body)

    def _part(self, name: str, names: dict[str, list[str]]) -> str:
        chance = self._chance
        if name in names and chance.random() < 0.9:
            return chance.choice(names[name])
        return quote(chance.choice(NUMBERS if chance.random() < 0.5 else [text for text in TEXTS if text]), safe="")

    def _body(self, method: str, template: str) -> bytes:
        chance = self._chance
        path = re.sub(r"<\w+:(\w+)>", r"{\1}", template)
        operation = self._document["paths"].get(path, {}).get(method.lower(), {})
        contents: list[Shape] = list(operation.get("requestBody", {}).get("content", {}).values())
        shape = contents[0].get("schema") if contents else None
        value = self._fitting(shape, 0) if shape is not None and chance.random() < 0.8 else self._any(0)
        text = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
        return text if chance.random() < 0.95 else text[: chance.randrange(len(text) + 1)]

    def _fitting(self, shape: Shape, depth: int) -> Any:
        """A value of this JSON schema, often at one of its limits, sometimes just beyond."""
        chance = self._chance
        if "$ref" in shape:
            return self._fitting(self._document["components"]["schemas"][shape["$ref"].rpartition("/")[2]], depth)
        if chance.random() < 0.05 or depth > 6:
            return self._any(depth)
        for several in "anyOf", "oneOf", "allOf":
            if several in shape:
                return self._fitting(chance.choice(shape[several]), depth)
        if "enum" in shape or "const" in shape:
            return chance.choice(shape.get("enum", [shape.get("const")]))
        match shape.get("type"):
            case "integer" | "number":
                low, high = shape.get("minimum", -(2**63)), shape.get("maximum", 2**63 - 1)
                return chance.choice([low, high, low - 1, high + 1, (low + high) // 2])
            case "string":
                longest = shape.get("maxLength", 300)
                return chance.choice(["a", "s", "room-0", "a" * longest, "a" * (longest + 1), *TEXTS])
            case "boolean":
                return chance.random() < 0.5
            case "array":
                return [self._fitting(shape.get("items", {}), depth + 1) for _ in range(chance.choice([0, 1, 2, 40]))]
            case "object":
                given = {name: one for name, one in shape.get("properties", {}).items() if chance.random() < 0.7}
                found = {name: self._fitting(one, depth + 1) for name, one in given.items()}
                more = shape.get("additionalProperties")
                if isinstance(more, dict):
                    found |= {text: self._fitting(more, depth + 1) for text in chance.sample(TEXTS, 2)}
                return found
        return self._any(depth)

    def _any(self, depth: int) -> Any:
        chance = self._chance
        match chance.randrange(8 if depth < 4 else 5):
            case 0:
                return chance.choice([None, True, False])
            case 1:
                return chance.choice(INTEGERS)
            case 2:
                return chance.choice([0.5, -0.0, 1e308, 1e-300])
            case 3 | 4:
                return chance.choice([*TEXTS, *NUMBERS])
            case 5:
                return [self._any(depth + 1) for _ in range(chance.choice([0, 1, 3, 200 if depth < 2 else 1]))]
            case _:
                return {chance.choice([*FIELDS, *TEXTS]): self._any(depth + 1) for _ in range(chance.choice([0, 1, 3, 8]))}


class Asker:
    """One connection to the web process."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=SERVED_S * 2)
        self._token = token

    def ask(self, asked: Request) -> tuple[int, bytes]:
        """Raises `NotServed`."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        for left in (1, 0):  # an idle connection may have been closed
            try:
                with suppress(BrokenPipeError):  # what is too long is answered before all of it was sent
                    self._connection.request(asked.method, asked.path, asked.body, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read(ANSWER_BYTES_MAX)
            except TimeoutError:
                raise NotServed(f"{asked} was not answered in {2 * SERVED_S:.0f} s") from None
            except (HTTPException, OSError) as error:
                self._connection.close()
                if not left:
                    raise NotServed(f"{asked} had no answer: {error!r}") from None
        raise AssertionError

    def close(self) -> None:
        self._connection.close()


def judge(asked: Request, status: int, body: bytes, secret: str) -> None:
    """Raises `NotServed`."""
    explained = status == 501 or (status == 503 and (b'"reason"' in body or b'"detail"' in body))
    if status >= 500 and not explained:
        raise NotServed(f"{asked} was answered with {status}: {body[:400]!r}")
    if secret.encode() in body:
        raise NotServed(f"{asked} shows what is the neighbour's: {body[:400]!r}")


class House:
    """The platform with its two tenants."""

    def __init__(self, platform: Standalone) -> None:
        self.platform = platform
        self.secret = f"w{secrets.token_hex(6)}"
        self.tokens = {tenant: self._tenant(tenant) for tenant in (GUEST, NEIGHBOUR)}
        self._make(f"/api/v1/tenants/{NEIGHBOUR}/namespaces", {"name": self.secret})
        topics = f"/admin/v2/persistent/{NEIGHBOUR}/{self.secret}"
        self._make(f"{topics}/{self.secret}", {"note": self.secret}, "PUT")
        self._make(f"{topics}/{self.secret}/subscription/{self.secret}", None, "PUT")
        self.document = platform.http("GET", "/api/v1/openapi.json").json()
        self.processes = self._processes()

    def _tenant(self, tenant: str) -> str:
        self._make("/api/v1/tenants", {"name": tenant})
        answer = self._make(f"/api/v1/tenants/{tenant}/keys", {"name": "key"})
        token, role = answer["token"], answer["role"]
        self._make(f"/admin/v2/tenants/{tenant}", {"adminRoles": [role], "allowedClusters": ["standalone"]}, "POST")
        return str(token)

    def furnish(self) -> None:
        """What the guest has, and may have deleted."""
        ask = self.platform.http
        token = self.tokens[GUEST]
        ask("POST", f"/api/v1/tenants/{GUEST}/namespaces", {"name": "house"}, token)
        topics = f"/admin/v2/persistent/{GUEST}/house"
        for topic in "room-0", "room-1":
            ask("PUT", f"{topics}/{topic}", {}, token)
        ask("PUT", f"{topics}/parts/partitions", 3, token)
        ask("PUT", f"{topics}/parts/subscription/s", "earliest", token)
        ask("PUT", f"{topics}/room-0/subscription/s", "earliest", token)

    def _make(self, path: str, body: Any, method: str = "POST") -> Any:
        answer = self.platform.http(method, path, body, self.platform.admin_token)
        assert answer.status < 300, (path, answer.status, answer.text)
        return json.loads(answer.text) if answer.text else None

    def _processes(self) -> dict[str, int]:
        return {name: self.platform.child(name)["pid"] for name in ("broker", "web", "worker")}

    def check(self) -> None:
        if self.platform.process.poll() is not None or self._processes() != self.processes:
            raise NotServed(f"a process ended: {self.processes} are {self._processes()}\n{self.platform.output()[-4000:]}")


async def campaign(folder: Path, visits: int, seed: int, progress: bool = False) -> Visited:
    """Raises `NotServed` with the seed and the visit."""
    platform = await asyncio.to_thread(Standalone(folder / "data").start)
    try:
        _set_up(folder / "data")
        return await _visited(await asyncio.to_thread(House, platform), visits, seed, progress)
    finally:
        await asyncio.to_thread(platform.close)


def _set_up(data: Path) -> None:
    """Django knows the routes."""
    if not settings.configured:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "controlplane.settings", "MAGNETAR_DATA_DIR": str(data)}
        django.setup()


async def _visited(house: House, visits: int, seed: int, progress: bool) -> Visited:
    ready, loop = house.platform.ready, asyncio.get_running_loop()
    port = urlsplit(ready["broker_url"]).port
    assert port is not None
    token, secret = house.tokens[NEIGHBOUR], house.secret
    canary = await Canary.hatch(port, token, f"persistent://{NEIGHBOUR}/{secret}/{secret}")
    statuses, routes, asks, ended = Counter[int](), set[str](), [0.0], asyncio.Event()
    with ThreadPoolExecutor(VISITORS + 1) as threads:

        def visit(number: int) -> None:
            requests, asker = Requests(seed * 1_000_003 + number, house.document), Asker(ready["web_url"], house.tokens[GUEST])
            try:
                for _ in range(REQUESTS_A_VISIT):
                    route, asked = requests.next()
                    status, body = asker.ask(asked)
                    statuses[status] += 1
                    routes.add(route)
                    judge(asked, status, body, secret)
            except NotServed as error:
                raise NotServed(f"seed {seed}, visit {number}: {error}") from None
            finally:
                asker.close()

        async def neighbour() -> None:
            asker = Asker(ready["web_url"], token)
            stats = Request("GET", f"/admin/v2/persistent/{NEIGHBOUR}/{secret}/{secret}/stats", None)
            while not ended.is_set():
                await canary.sing()
                begun = time.monotonic()
                status, body = await loop.run_in_executor(threads, asker.ask, stats)
                asks.append(time.monotonic() - begun)
                if status != 200 or secret.encode() not in body:
                    raise NotServed(f"the neighbour was answered with {status}: {body[:300]!r}")
                await asyncio.wait({asyncio.ensure_future(ended.wait())}, timeout=0.05)
            asker.close()

        beside = asyncio.ensure_future(neighbour())
        try:
            for first in range(0, visits, VISITORS):
                await loop.run_in_executor(threads, house.furnish)
                batch = [loop.run_in_executor(threads, visit, number) for number in range(first, min(first + VISITORS, visits))]
                await asyncio.gather(*batch)
                await loop.run_in_executor(threads, house.check)
                if progress and first % (20 * VISITORS) == 0:
                    print(f"{first:,} visits, {dict(statuses)}", flush=True)
        finally:
            ended.set()
            await beside
            await canary.close()
    return Visited(statuses.total(), len(routes), statuses, canary.songs, max(asks))


def main() -> int:
    parser = argparse.ArgumentParser(description="Let a tenant ask for everything in every way, and see that nobody notices.")
    parser.add_argument("--visits", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = asyncio.run(campaign(Path(folder), chosen.visits, chosen.seed, progress=True))
        except NotServed as error:
            print(error, flush=True)
            return 1
    print(
        f"{found.requests:,} requests to {found.routes} routes: {dict(found.statuses.most_common())}; {found.songs:,} songs of the "
        f"neighbour, its longest question {found.longest_ask_s * 1000:.0f} ms (seed {chosen.seed})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
