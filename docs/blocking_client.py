"""Writes the blocking classes of the SDK from the asynchronous ones: ``python -m docs.blocking_client`` (`make client`).

A coroutine becomes a method that waits for it in the thread of the client, what opens something opens it, a future becomes one for
threads, and everything else is passed on. Signatures and docstrings are those of the source. A test makes the module anew and
compares.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.admin_client import formatted

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "messaging" / "client"
TARGET = CLIENT / "blocking" / "generated.py"


class Source(NamedTuple):
    """`internal`: what is for other parts of the SDK."""

    name: str
    file: str
    internal: frozenset[str] = frozenset()


SOURCES = (
    Source("Client", "client.py", frozenset({"forked"})),
    Source("Producer", "producing/producer.py", frozenset({"open", "settled", "batch_ended", "gave_up", "forked"})),
    Source(
        "Consumer",
        "consuming/consumer.py",
        frozenset(
            {
                "open",
                "run",
                "arrived",
                "dropped",
                "queued",
                "sought",
                "refused",
                "ended",
                "gave_up",
                "forked",
                "of_parent",
                "next_message",
                "arrived_last",
            }
        ),
    ),
    Source("Reader", "consuming/reader.py", frozenset({"of_parent"})),
    Source("TableView", "consuming/table_view.py"),
    Source("DelayedMessages", "delayed.py"),
)
NAMES = {source.name for source in SOURCES}
HEAD = '''"""The blocking classes of the SDK. Generated from the asynchronous ones by `make client`. Edit those, not this module."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from messaging.client.client import E, Opening
'''
OPENED = """

async def _opened(opening: Opening[E]) -> E:
    return await opening
"""
OWN = {
    "Consumer": '''
    def run(self, handle: Callable[[Message], None], *, workers: int = 1) -> None:
        """Calls `handle` with each message until the consumer is closed, in a thread each, `workers` of them at once. What `handle`
        returns from is acknowledged; what it raises is logged, and the message comes again."""

        async def handled(message: Message) -> None:
            await asyncio.to_thread(handle, message)

        self._thread.run(self._inner.run(handled, workers=workers))
''',
}
_ITERATES = """
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self._thread.run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
"""
_ENDS = """
    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        {leave}
"""


def source() -> str:
    trees = {each.name: ast.parse((CLIENT / each.file).read_text(encoding="utf-8")) for each in SOURCES}
    classes = [_class(each, _definition(trees[each.name], each.name)) for each in SOURCES]
    body = "\n\n".join(classes)
    return HEAD + "\n".join(_imports(body, list(trees.values()))) + "\n\n\n" + body


def _definition(tree: ast.Module, name: str) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _class(about: Source, definition: ast.ClassDef) -> str:
    base = "(Mapping[Key, Any])" if about.name == "TableView" else ""
    docstring = ast.get_docstring(definition, clean=False) or ""
    names = {node.name for node in definition.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    parts = [
        f'class {about.name}{base}:\n    """{_plain(docstring)}"""\n',
        f"    def __init__(self, thread: LoopThread, inner: {_module(about)}.{about.name}) -> None:\n"
        "        self._thread = thread\n        self._inner = inner\n",
    ]
    for node in definition.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            public = not node.name.startswith("_") or (about.name == "TableView" and node.name in _OF_MAPPING)
            if public and node.name not in about.internal:
                parts.append(_method(node))
    if "__anext__" in names:
        parts.append(_ITERATES.lstrip("\n"))
    if "__aexit__" in names:
        leave = "self._thread.run(self._inner.__aexit__(kind, error, trace))"
        if about.name == "Client":
            leave = _LAST.format(leave)
        parts.append(_ENDS.format(leave=leave).lstrip("\n"))
    if about.name in OWN:
        parts.append(OWN[about.name].lstrip("\n"))
    return "\n".join(parts)


_LAST = """if self._thread.closed:
            return
        try:
            {}
        finally:
            self._thread.close()"""
_OF_MAPPING = ("__getitem__", "__iter__", "__len__")


def _module(about: Source) -> str:
    return f"asynchronous_{about.name.lower()}"


def _plain(docstring: str) -> str:
    """Without what is true of the asynchronous class alone."""
    text = re.sub(r"async (for|with) ", r"\1 ", docstring).replace("await ", "")
    return text.replace("belongs to one event loop", "may be used from several threads").replace(
        "Belongs to one event loop", "May be used from several threads"
    )


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)
    returns = ast.unparse(node.returns) if node.returns is not None else "None"
    call = f"self._inner.{node.name}" if is_property else f"self._inner.{node.name}({_passed(node.args)})"
    if node.name in _OF_MAPPING:
        call = {"__getitem__": "self._inner[key]", "__iter__": "iter(self._inner)", "__len__": "len(self._inner)"}[node.name]
    opening = re.fullmatch(r"Opening\[(\w+)\]", returns)
    future = re.fullmatch(r"asyncio\.Future\[(\w+)\]", returns)
    if opening:
        returns = opening[1]
        result = f"{returns}(self._thread, self._thread.run(_opened({call})))"
    elif isinstance(node, ast.AsyncFunctionDef):
        result = f"self._thread.run({call})"
        result = f"{returns}(self._thread, {result})" if returns in NAMES else result
    elif future:
        returns, result = f"Future[{future[1]}]", f"self._thread.start(lambda: {call})"
    elif returns in NAMES:
        result = f"{returns}(self._thread, {call})"
    elif is_property or node.name in _OF_MAPPING:
        result = call
    else:
        result = f"self._thread.call(lambda: {call})"
    body = result if returns == "None" else f"return {result}"
    if node.name == "close" and "_endpoints" in ast.unparse(node):
        body = _LAST.format(body)
    lines = ["    @property"] if is_property else []
    lines.append(f"    def {node.name}({ast.unparse(node.args)}) -> {returns}:")
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
        lines.append(f'        """{_plain(docstring)}"""')
    lines.append(f"        {body}")
    return "\n".join(lines) + "\n"


def _passed(arguments: ast.arguments) -> str:
    passed = [each.arg for each in arguments.args[1:]]
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**{arguments.kwarg.arg}")
    return ", ".join(passed)


def _imports(body: str, trees: list[ast.Module]) -> Iterator[str]:
    """Of the names that signatures have, from where the sources have them."""
    words = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", body, flags=re.DOTALL)))
    known: dict[str, str] = {"TracebackType": "types", "Self": "typing", "LoopThread": "messaging.client.blocking.loop_thread"}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                known.update({alias.name: node.module for alias in node.names})
    for each in SOURCES:
        module = ".".join((CLIENT / each.file).relative_to(ROOT).with_suffix("").parts)
        parent, _, name = module.rpartition(".")
        if _module(each) in words:
            yield f"from {parent} import {name} as {_module(each)}"
        for node in _tree_of(each).body:
            if isinstance(node, ast.ClassDef) and node.name not in NAMES:
                known.setdefault(node.name, module)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known.setdefault(node.targets[0].id, module)
    skipped = {*NAMES, "annotations", "Future"}
    for word in sorted(words & known.keys() - skipped):
        yield f"from {known[word]} import {word}"


def _tree_of(about: Source) -> ast.Module:
    return ast.parse((CLIENT / about.file).read_text(encoding="utf-8"))


def generate() -> str:
    return formatted(_sorted(source() + OPENED))


def _sorted(text: str) -> str:
    """Its imports, as ruff wants them."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "check", "--quiet", "--select", "I", "--fix", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    TARGET.write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
