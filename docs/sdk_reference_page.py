"""The page of the SDK's API: signatures and docstrings of what `messaging.client` gives to its users."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from messaging import client
from messaging.client import blocking, errors, savings, tracing, tuning, tuning_report
from messaging.client.arguments import ConsumerArguments, ProducerArguments
from messaging.client.client import ClientStatistics, Opening
from messaging.client.consuming.consumer import ConsumerStatistics
from messaging.client.consuming.interceptors import ConsumerInterceptor
from messaging.client.consuming.options import ConsumerOptions
from messaging.client.delayed import DelayedMessage, DelayedMessages
from messaging.client.encryption import read_keys
from messaging.client.message import EncryptionContext
from messaging.client.producing.arguments import SendArguments
from messaging.client.producing.interceptors import ProducerInterceptor
from messaging.client.producing.options import BatchLimits, ProducerOptions
from messaging.client.producing.producer import ProducerStatistics
from messaging.client.schemas import primitives
from messaging.client.schemas.automatic import AutoConsume, AutoProduceBytes

# Parts of the SDK call these; users do not. A test keeps the blocking classes, which leave them out, in step.
INTERNAL = {
    "Client": {"forked"},
    "Producer": {"open", "settled", "batch_ended", "gave_up", "forked"},
    "Consumer": {
        *("open", "arrived", "dropped", "queued", "sought", "refused", "ended", "gave_up", "forked"),
        *("of_parent", "next_message", "arrived_last"),
    },
    "Reader": {"of_parent"},
    "Encryptor": {"encrypt"},
    "Decryptor": {"decrypt"},
    "Protobuf": {"described_by"},
    "AutoProduceBytes": {"bound_to"},
}
# Users do not make these themselves: the constructor says nothing to them.
MADE = {"Client", "Producer", "Consumer", "Reader", "TableView", "DelayedMessages", "Opening", "Schema"}


class Section(NamedTuple):
    title: str
    text: str
    names: tuple[Any, ...]


SECTIONS = (
    Section("Connecting", "", (client.connect, client.Client, Opening, ClientStatistics)),
    Section(
        "Sending",
        "",
        (client.Producer, SendArguments, ProducerArguments, ProducerOptions, BatchLimits, ProducerInterceptor, ProducerStatistics),
    ),
    Section(
        "Receiving",
        "",
        (
            client.Consumer,
            ConsumerArguments,
            ConsumerOptions,
            client.DeadLetterPolicy,
            client.RedeliveryBackoff,
            client.Reader,
            client.TableView,
            ConsumerInterceptor,
            ConsumerStatistics,
        ),
    ),
    Section(
        "Messages",
        "`EARLIEST` and `LATEST` are the ids before the first and after the last message of any topic.",
        (client.Message, client.MessageId, client.OutgoingMessage),
    ),
    Section("Delayed messages", "", (DelayedMessages, DelayedMessage)),
    Section(
        "Schemas",
        "`BYTES` and `STRING` are the simplest. `AUTO_CONSUME` is an `AutoConsume`, `AUTO_PRODUCE_BYTES` an `AutoProduceBytes`.",
        (client.Schema, client.Json, client.Avro, client.Protobuf, client.KeyValue, AutoConsume, AutoProduceBytes, primitives),
    ),
    Section("Encryption", "", (client.Encryptor, client.Decryptor, read_keys, EncryptionContext)),
    Section(
        "Traces", "In `messaging.client.tracing`; needs the library of OpenTelemetry.", (tracing.TraceContext, tracing.context_of)
    ),
    Section(
        "Tuning",
        "In `messaging.client.tuning`, `messaging.client.savings` and `messaging.client.tuning_report`.",
        (
            *(tuning.Traffic, tuning.advise, tuning.Advice, tuning.Setting, tuning.contradictions, tuning.filled),
            *(savings.TopicTraffic, savings.savings, savings.Savings),
            *(tuning_report.TuneQuestion, tuning_report.tune, tuning_report.TuneReport),
        ),
    ),
)


def page(note: str) -> str:
    text = note + (
        "# Reference of the SDK\n\n"
        "Everything is in `messaging.client` unless a section says otherwise. How it is used is in [sdk.md](sdk.md). "
        "`messaging.client.blocking` has the same names for programs without an event loop: where a method here is `async`, or "
        "returns something to await, the one there returns when it is done.\n"
    )
    for section in SECTIONS:
        text += f"\n## {section.title}\n"
        if section.text:
            text += f"\n{section.text}\n"
        text += "".join(_entry(each) for each in section.names)
    return text + _errors()


def _entry(each: Any) -> str:
    if inspect.ismodule(each):
        return f"\n### Primitive schemas\n\n{_prose(each.__doc__)}\n"
    if inspect.isfunction(each):
        return f"\n### {each.__name__}\n{_signature(each.__name__, each)}{_docs(each)}"
    text = f"\n### {each.__name__}\n"
    if typing.is_typeddict(each) or dataclasses.is_dataclass(each) or hasattr(each, "_fields"):
        return text + _docs(each) + _fields(each) + _methods(each)
    if each.__name__ not in MADE and not getattr(each, "_is_protocol", False) and "__init__" in vars(each):
        text += _signature(each.__name__, each.__init__)
    return text + _docs(each) + _methods(each)


def _fields(each: Any) -> str:
    """As a table: the annotation as it is written, and the default."""
    defaults: dict[str, str] = {}
    if dataclasses.is_dataclass(each):
        for field in dataclasses.fields(each):
            if field.default is not dataclasses.MISSING:
                defaults[field.name] = repr(field.default)
            elif field.default_factory is not dataclasses.MISSING:
                defaults[field.name] = repr(field.default_factory())
    defaults |= {name: repr(value) for name, value in getattr(each, "_field_defaults", {}).items()}
    annotations = {name: _written(kind) for name, kind in each.__annotations__.items()}
    columns = ["field", "type", "default"] if defaults else ["field", "type"]
    text = f"\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
    for name, kind in annotations.items():
        cells = [f"`{name}`", f"`{kind}`".replace("|", "\\|")]
        if defaults:
            cells.append(f"`{defaults[name]}`" if name in defaults else "")
        text += f"| {' | '.join(cells)} |\n"
    return text


def _written(annotation: Any) -> str:
    return annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else str(annotation)


def _methods(each: type) -> str:
    return "".join(f"\n#### {each.__name__}.{name}\n{_signature(name, method)}{_docs(method)}" for name, method in _public(each))


def _public(each: type) -> Iterator[tuple[str, Any]]:
    """In the order of the source; what is inherited from a class of ours is told there."""
    for name, member in vars(each).items():
        if name.startswith("_") or name in INTERNAL.get(each.__name__, set()):
            continue
        if isinstance(member, property):
            yield name, member
        elif isinstance(member, classmethod | staticmethod):
            yield name, member.__func__
        elif inspect.isfunction(member) and (member.__doc__ or not any(hasattr(base, name) for base in each.__bases__)):
            yield name, member


def _signature(name: str, callee: Any) -> str:
    if isinstance(callee, property):
        assert callee.fget is not None
        returns = inspect.signature(callee.fget).return_annotation
        return f"\n```python\n{name}: {returns}\n```\n"
    signature = inspect.signature(callee)
    parameters = [_named(parameter) for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    shown = str(signature.replace(parameters=parameters)).replace("'", '"')
    shown = re.sub(r'(: |-> |\[|\| )"([^"]*)"', r"\1\2", shown).replace(" -> None", "")
    prefix = "async " if inspect.iscoroutinefunction(callee) else ""
    line = f"{prefix}{name}{shown}"
    if len(line) > 100:
        line = re.sub(r"\((.*)\)", lambda match: "(\n    " + ",\n    ".join(_split(match[1])) + ",\n)", line, count=1)
    return f"\n```python\n{line}\n```\n"


class _Name:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _named(parameter: inspect.Parameter) -> inspect.Parameter:
    """With the name that the default has, not with what it looks like."""
    if inspect.isbuiltin(parameter.default):
        return parameter.replace(default=_Name(f"{parameter.default.__module__}.{parameter.default.__name__}"))
    for name in ("BYTES", "EARLIEST", "LATEST"):
        if parameter.default is getattr(client, name):
            return parameter.replace(default=_Name(name))
    return parameter


def _split(parameters: str) -> list[str]:
    """At the commas that are within no brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(parameters):
        depth += character in "([{"
        depth -= character in ")]}"
        if character == "," and depth == 0:
            parts.append(parameters[start:at].strip())
            start = at + 1
    return [*parts, parameters[start:].strip()]


def _docs(each: Any) -> str:
    text = each.fget.__doc__ if isinstance(each, property) else each.__doc__
    if not text or text.startswith((f"{getattr(each, '__name__', '')}(", "dict(", "str(")):  # what Python makes by itself
        return ""
    return f"\n{_prose(text)}\n"


def _prose(text: str) -> str:
    """Markdown of a docstring: literal blocks and tables become blocks of code, quoted names stay as they are."""
    text = inspect.cleandoc(text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"\n\n::\n\n((?:    .*\n?|\n)+)", lambda match: f"\n\n```python\n{inspect.cleandoc(match[1])}\n```\n", text)
    return re.sub(r"((?:^=+ .*\n)(?:.*\n)*?(?:^=+ .*\n)(?:.+\n)*?(?:^=+ .*$))", r"```text\n\1\n```", text, flags=re.MULTILINE)


def _errors() -> str:
    tree = inspect.cleandoc(errors.__doc__ or "")
    before, _, rest = tree.partition("\n\n")
    drawn, _, after = rest.rpartition("\n\n")
    text = f"\n## Errors\n\nIn `messaging.client.errors`. {before}\n\n```text\n{drawn}\n```\n\n{after}\n"
    text += "\n| error | code | what its fields say |\n| --- | --- | --- |\n"
    for name in errors.__all__:
        each = getattr(errors, name)
        if inspect.isclass(each):
            own = each.__doc__ if each.__doc__ and each.__module__ == errors.__name__ else ""
            text += f"| `{name}` | `{each.code}` | {_prose(own).replace(chr(10), ' ')} |\n"
    return text + "".join(_entry(getattr(errors, name)) for name in ("whose_fault", "may_be_stored", "from_wire"))


def undescribed() -> list[str]:
    """Names that users can import and the page does not have."""
    described = {getattr(each, "__name__", "") for section in SECTIONS for each in section.names}
    described |= {*primitives.PRIMITIVES, "BYTES", "STRING", "AUTO_CONSUME", "AUTO_PRODUCE_BYTES", "EARLIEST", "LATEST", "errors"}
    return [name for name in {*client.__all__, *blocking.__all__} if name not in described]
