"""Writes the admin client of the SDK from the OpenAPI document: ``python -m docs.admin_client`` (`make client`).

A resource is a class, an operation a method, an object a `TypedDict`; what requests are and how they are sent is
`messaging.client.admin.http`, which is written by hand. A test makes the module anew and compares.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
PREFIX = "/api/v1/"
TARGET = Path(__file__).resolve().parents[1] / "messaging" / "client" / "admin" / "generated.py"
VERBS = {"get": "", "post": "", "put": "set", "patch": "update", "delete": "delete"}
OF_COLLECTION = {"get": "list", "post": "create", "delete": "delete", "patch": "update", "put": "set"}
OF_ITEM = {"get": "get", "post": "run", "put": "set", "patch": "update", "delete": "delete"}
HEAD = '''"""The operations of /api/v1. Generated from the OpenAPI document by `make client`. Edit the source, not this module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict

from messaging.client.admin.http import Http, segment
'''


# Collections that keep the name which they had before another one came whose path ends with the same word.
NAMED_BEFORE = frozenset({("tenants", "members"), ("tenants", "namespaces", "topics", "redrives")})


class Operation(NamedTuple):
    group: tuple[str, ...]  # of the collections in its path, the last one is what it is about
    name: str
    verb: str
    path: str
    about: Json


def operations(document: Json) -> Iterator[Operation]:
    paths = {path.removeprefix(PREFIX): methods for path, methods in document["paths"].items()}
    collections = {path.rpartition("/{")[0] for path in paths if path.endswith("}")}
    collections |= {path for path, methods in paths.items() if "Page" in _answer_ref(methods.get("get", {}))}
    for path, methods in sorted(paths.items()):
        group, tail, item = _split(path, collections)
        for verb, about in methods.items():
            if tail:
                name = "_".join([*filter(None, [VERBS[verb]]), *tail])
                name = f"start_{name}" if verb == "post" and "get" in methods else name
            else:
                name = (OF_ITEM if item else OF_COLLECTION)[verb]
                of_item = any(verb in paths.get(other, {}) for other in paths if re.fullmatch(re.escape(path) + r"/\{\w+\}", other))
                name += "_all" if not item and verb in ("delete", "patch") and of_item else ""
            yield Operation(group, _identifier(name), verb, path, about)


def _split(path: str, collections: set[str]) -> tuple[tuple[str, ...], list[str], bool]:
    """The collections in a path, what follows the last of them, and whether it is one of its items."""
    group: list[str] = []
    tail: list[str] = []
    item, seen = False, ""
    for part in path.split("/"):
        seen = f"{seen}/{part}".removeprefix("/")
        if part == "{kind}":
            group, tail, item = [*group, "topics"], [], False
        elif part.startswith("{"):
            item, tail = True, []
        elif seen in collections:
            group, tail, item = [*group, part], [], False
        else:
            tail.append(part)
    return tuple(group or ["platform"]), tail, item


def _answer_ref(about: Json) -> str:
    content = about.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _identifier(text: str) -> str:
    name = re.sub(r"\W", "_", text)
    return f"{name}_" if keyword.iskeyword(name) else name


def _singular(word: str) -> str:
    return word.removesuffix("s")


def group_names(groups: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """The last collection, with the one before it where several have that name."""
    lasts = [group[-1] for group in groups]
    names: dict[tuple[str, ...], str] = {}
    for group in sorted(groups):
        plain = lasts.count(group[-1]) == 1 or len(group) == 1 or group in NAMED_BEFORE
        names[group] = _identifier(group[-1] if plain else f"{_singular(group[-2])}_{group[-1]}")
    return names


# --- types -----------------------------------------------------------------------------------------------------------------------


def type_of(schema: Json) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(branch) for branch in schema["anyOf"]))
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    match schema.get("type"):
        case "string":
            return "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "null":
            return "None"
        case "array":
            return f"list[{type_of(schema.get('items', {}))}]"
        case "object":
            inner = schema.get("additionalProperties")
            return f"dict[str, {type_of(inner)}]" if isinstance(inner, dict) else "dict[str, Any]"
    return "Any"


def _typed_dict(name: str, schema: Json) -> str:
    required = set(schema.get("required", ()))
    fields = []
    for field, value in schema.get("properties", {}).items():
        kind = type_of(value)
        fields.append((field, kind if field in required else f"NotRequired[{kind}]"))
    if all(field.isidentifier() and not keyword.iskeyword(field) for field, _ in fields):
        lines = [f"    {field}: {kind}" for field, kind in fields] or ["    pass"]
        return f"class {name}(TypedDict):\n" + "\n".join(lines) + "\n"
    lines = [f"    {field!r}: {kind!r}," for field, kind in fields]
    return f"{name} = TypedDict({name!r}, {{\n" + "\n".join(lines) + "\n})\n"


# --- methods ---------------------------------------------------------------------------------------------------------------------


def _answers(about: Json) -> tuple[str, bool]:
    """The type of what an operation returns, and whether that is JSON."""
    kinds: list[str] = []
    for status, answer in about["responses"].items():
        if not status.startswith("2"):
            continue
        content = answer.get("content", {})
        if not content:
            kinds.append("None")
        for media_type, body in content.items():
            kinds.append(type_of(body["schema"]) if media_type == "application/json" else "bytes")
    kinds = list(dict.fromkeys(kinds))
    return " | ".join(sorted(kinds, key=lambda kind: kind == "None")), "bytes" not in kinds


def _method(operation: Operation, document: Json) -> str:
    about = operation.about
    parameters = about.get("parameters", [])
    path_names = re.findall(r"{(\w+)}", operation.path)
    positional = [f"{name}: str" for name in path_names if name != "kind"]
    body = about.get("requestBody")
    if body:
        schema = next(iter(body["content"].values()))["schema"]
        positional.append(f"body: {type_of(schema)}")
    named = ["kind: Literal['topics', 'non-persistent'] = 'topics'"] if "kind" in path_names else []
    query = [parameter for parameter in parameters if parameter["in"] == "query"]
    named += [f"{_identifier(each['name'])}: {type_of(each['schema'])} | None = None" for each in query]
    changes = operation.verb != "get"
    headers = {parameter["name"] for parameter in parameters if parameter["in"] == "header"}
    named += ["idempotency_key: str | None = None"] if "Idempotency-Key" in headers else []
    named += ["if_match: str | None = None"] if "If-Match" in headers else []
    signature = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    kind, json = _answers(about)
    path = re.sub(r"{(\w+)}", lambda part: f"{{segment({part[1]})}}", operation.path)
    arguments = [repr(operation.verb.upper()), f"f{path!r}" if "{" in path else repr(path)]
    arguments += ["body=body"] if body else []
    if query:
        arguments.append("query={" + ", ".join(f"{each['name']!r}: {_identifier(each['name'])}" for each in query) + "}")
    arguments += ["idempotency_key=idempotency_key"] if changes and "Idempotency-Key" in headers else []
    arguments += ["if_match=if_match"] if "If-Match" in headers else []
    send = "send" if json else "read"
    returned = "" if kind == "None" else "return "
    lines = [f"    def {operation.name}({signature}) -> {kind}:", f'        """{about["summary"]}."""']
    call = f"self._http.{send}({', '.join(arguments)})"
    if returned:
        lines += [f"        answer: {kind} = {call}", "        return answer"]
    else:
        lines.append(f"        {call}")
    if operation.name == "list" and {"after", "limit"} <= {each["name"] for each in query} and kind.startswith("PageOf"):
        lines += _each(operation, positional, named, query, document["components"]["schemas"][kind])
    return "\n".join(lines) + "\n"


def _each(operation: Operation, positional: list[str], named: list[str], query: list[Json], page: Json) -> list[str]:
    """A method that goes through all pages."""
    named = [each for each in named if not each.startswith(("after:", "limit:"))]
    names = [each.partition(":")[0] for each in positional]
    passed = [*names, *(f"{each.partition(':')[0]}={each.partition(':')[0]}" for each in named)]
    signature = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    item = type_of(page["properties"]["items"]["items"])
    return [
        "",
        f"    def each({signature}) -> Iterator[{item}]:",
        '        """All of them, page by page."""',
        "        after: str | None = None",
        "        while True:",
        f"            page = self.list({', '.join([*passed, 'after=after', 'limit=1000'])})"
        if _limit_max(query) == 1000
        else f"            page = self.list({', '.join([*passed, 'after=after'])})",
        '            yield from page["items"]',
        '            after = page["next"]',
        "            if after is None:",
        "                return",
    ]


def _limit_max(query: list[Json]) -> int:
    return 1000 if any("1 to 1000" in each.get("description", "") for each in query) else 0


def source(document: Json) -> str:
    """The module, before it is formatted."""
    found = list(operations(document))
    names = group_names({operation.group for operation in found})
    schemas = document["components"]["schemas"]
    parts = [HEAD, *(_typed_dict(name, schemas[name]) for name in sorted(schemas))]
    for group in sorted(names, key=lambda group: names[group]):
        methods = [_method(operation, document) for operation in found if operation.group == group]
        parts.append(
            f"class {_class_of(names[group])}:\n    def __init__(self, http: Http) -> None:\n        self._http = http\n\n"
            + "\n".join(methods)
        )
    fields = "\n".join(f"        self.{name} = {_class_of(name)}(http)" for name in sorted(names.values()))
    parts.append(f'class Resources:\n    """All of them."""\n\n    def __init__(self, http: Http) -> None:\n{fields}\n')
    return "\n\n".join(parts)


def _class_of(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def generate() -> str:
    from docs.web_process import load_routes

    load_routes()
    from tenants.rest.document import document

    return formatted(source(document()))


def main() -> None:
    TARGET.write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
