"""Counts how the sources stand: what one operation passes, how large the largest parts are, which names say nothing.

    python -m tests.repository.house            all figures
    python -m tests.repository.house --static   those that are read from the sources alone
    python -m tests.repository.house --names    with the names of the files that an operation passes

The files of an operation are counted in a whole broker in this process, on real sockets and a real disk, with the hot loops as
plain Python: those of ours in which a function was called in every one of `ROUNDS` runs, so that a loop that happens to wake up
meanwhile does not count.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.repository.private_names import private_names

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("messaging", "tenants", "admin_ui", "workers", "spark_jobs", "platform")
GENERATED = ("_pb2.py", "_pb2.pyi", "generated.py")
EMPTY_NAMES = frozenset({"one", "found", "held"})
FILES_MAX = 30
ROUNDS = 5
Figures = dict[str, Any]


# --- what the sources say ----------------------------------------------------------------------------------------------------


class Class(NamedTuple):
    path: Path
    node: ast.ClassDef

    @property
    def methods(self) -> set[str]:
        return {item.name for item in self.node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}

    @property
    def bases(self) -> Iterator[str]:
        for base in self.node.bases:
            name = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(name, ast.Name | ast.Attribute):
                yield name.id if isinstance(name, ast.Name) else name.attr

    @property
    def is_record(self) -> bool:
        decorators = {ast.unparse(item).split("(")[0].rpartition(".")[2] for item in self.node.decorator_list}
        return "dataclass" in decorators or bool({"NamedTuple", "Struct"} & set(self.bases))

    @property
    def fields(self) -> list[str]:
        """The types of its fields, as they are written."""
        return [ast.unparse(item.annotation) for item in self.node.body if isinstance(item, ast.AnnAssign)]


Modules = dict[Path, list[ast.AST]]  # all nodes of each


def paths_below(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if not path.name.endswith(GENERATED))


def modules(*folders: str) -> Modules:
    return {path: list(ast.walk(ast.parse(path.read_text()))) for path in paths_below(*folders)}


def classes(trees: Modules) -> dict[str, Class]:
    """By name; of two with one name the larger."""
    known: dict[str, Class] = {}
    for path, nodes in trees.items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                listed = Class(path, node)
                if node.name not in known or len(listed.methods) > len(known[node.name].methods):
                    known[node.name] = listed
    return known


def all_methods(name: str, known: dict[str, Class]) -> set[str]:
    """Its own and those of the classes of ours that it is made of."""
    if name not in known:
        return set()
    return known[name].methods.union(*(all_methods(base, known) for base in known[name].bases if base != name))


def services_in(record: Class, known: dict[str, Class]) -> int:
    """How many fields it has, if most are objects or functions that do something; 0 where most are plain values."""
    serving = 0
    for written in record.fields:
        words = set("".join(character if character.isidentifier() else " " for character in written).split())
        does = [name for name in words & known.keys() if not known[name].is_record]
        serving += bool(does or "Callable" in words)
    return len(record.fields) if 2 * serving > len(record.fields) else 0


def empty_names(trees: Modules) -> int:
    """Times that a local, a parameter or a loop's variable is called `one`, `found` or `held`."""
    stored = 0
    for nodes in trees.values():
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stored += node.id in EMPTY_NAMES
            elif isinstance(node, ast.arg):
                stored += node.arg in EMPTY_NAMES
    return stored


def privates_reached(trees: Modules) -> Counter[str]:
    """Uses of a private name that the test's own module does not define, by test module."""
    return +Counter({str(path.relative_to(ROOT)): len(private_names(nodes)) for path, nodes in trees.items()})


def crowded(*folders: str) -> dict[str, int]:
    """Folders with more than `FILES_MAX` modules."""
    counts: Counter[str] = Counter()
    for path in paths_below(*folders):
        counts[str(path.parent.relative_to(ROOT))] += 1
    return {folder: count for folder, count in counts.items() if count > FILES_MAX}


def static_figures() -> Figures:
    trees, tests = modules(*SOURCES), modules("tests")
    known = classes(trees)
    sizes = Counter({name: len(all_methods(name, known)) for name in known})
    records = Counter({name: services_in(each, known) for name, each in known.items() if each.is_record})
    private = privates_reached(tests)
    return {
        "methods of the largest class": dict(sizes.most_common(3)),
        "fields of the largest record of services": dict(records.most_common(3)),
        "source lines": sum(len(path.read_text().splitlines()) for path in trees),
        "test lines": sum(len(path.read_text().splitlines()) for path in tests),
        f"folders over {FILES_MAX} files, sources": crowded(*SOURCES),
        f"folders over {FILES_MAX} files, tests": crowded("tests"),
        "locals named one, found, held, sources": empty_names(trees),
        "locals named one, found, held, tests": empty_names(tests),
        "privates reached from tests": private.total(),
    }


# --- what an operation passes ------------------------------------------------------------------------------------------------


class Trace:
    """Notes in which files of ours functions are called, in every thread that starts after it."""

    def __init__(self) -> None:
        self._seen: set[str] | None = None
        self.passed: dict[str, set[str]] = {}
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._seen is not None:
            self._seen.add(frame.f_code.co_filename)

    def end(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    async def follow(self, name: str, operation: Callable[[int], Awaitable[None]]) -> None:
        rounds: list[set[str]] = []
        for number in range(ROUNDS):
            self._seen = set()
            await operation(number)
            rounds.append(self._seen)
            self._seen = None
            await asyncio.sleep(0.1)
        ours = tuple(f"{ROOT / source}/" for source in SOURCES)
        files = {file for file in set.intersection(*rounds) if file.startswith(ours)}
        self.passed[name] = {str(Path(file).relative_to(ROOT)) for file in files}


async def passages(folder: Path) -> dict[str, set[str]]:
    from messaging.adminrpc.usage import UsageFlush
    from messaging.clock import wall_ms
    from messaging.protocol import pulsar_pb2 as pb
    from tests.support.brokers.running_broker import running_broker
    from tests.support.clients.consuming import TOPIC, ack, id_of
    from tests.support.clients.raw_client import RawClient, Received, delayed_frame, send_frame

    trace = Trace()
    try:
        async with running_broker(folder) as broker:

            async def connected() -> RawClient:
                client = await RawClient.open(broker.port)
                await client.connect(broker.token("owner"))
                return client

            producer, consumer = await connected(), await connected()
            await producer.producer(TOPIC)

            async def send(number: int) -> None:
                producer.write(send_frame(number, b"message"))
                await producer.expect("SEND_RECEIPT")

            await trace.follow("a SEND", send)
            await consumer.subscribe(TOPIC, "s", sub_type=pb.Subscribe.Shared, permits=1_000)
            await consumer.messages(ROUNDS)
            delivered: list[Received] = []

            async def delivery(number: int) -> None:
                await send(ROUNDS + number)
                delivered.append((await consumer.messages(1))[0])

            await trace.follow("a SEND and its delivery", delivery)

            async def acknowledge(number: int) -> None:
                ack(consumer, id_of(delivered[number]), request_id=1_000 + number)
                await consumer.expect("ACK_RESPONSE")

            await trace.follow("an ACK", acknowledge)

            async def delayed(number: int) -> None:
                producer.write(delayed_frame(2 * ROUNDS + number, b"later", wall_ms() + 300))
                await producer.expect("SEND_RECEIPT")
                await consumer.messages(1)

            await trace.follow("a delayed message", delayed)

            async def page(number: int) -> None:
                state = {"grants": {"owner@acme": ["produce", "consume"]}, "policies": {"message_ttl_s": 1_000 + number}}
                await broker.say(("namespace", "acme/orders", state))

            await trace.follow("a page of policies", page)

            async def usage(number: int) -> None:
                await send(3 * ROUNDS + number)
                await broker.admin.usage.flush(UsageFlush(task_id="house"))

            await trace.follow("a usage record, in the broker", usage)
            await producer.close()
            await consumer.close()
    finally:
        trace.end()
    return trace.passed


def dynamic_figures(*, names: bool) -> Figures:
    import structlog

    from messaging.protocol import hot_extensions

    hot_extensions.built = lambda: False
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="magnetar-house-") as folder:
        passed = asyncio.run(passages(Path(folder)))
    return {f"files passed by {name}": _files(files, names=names) for name, files in passed.items()}


def _files(passed: set[str], *, names: bool) -> object:
    """The log is a part of its own, which most operations pass whole."""
    above = {file for file in passed if not file.startswith("messaging/storage/")}
    return sorted(passed) if names else {"all": len(passed), "above storage": len(above)}


def main(arguments: list[str]) -> None:
    figures: Figures = {}
    if "--static" not in arguments:
        figures |= dynamic_figures(names="--names" in arguments)
    figures |= static_figures()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
