"""The requests of /api/v1 that a form of the console makes, as one writes them with curl, on the command line and in Python.

A page shows them below its form (`parts/calls.html`) and follows the form while it is filled in: a GET of the same address with
`FOLLOWED` in its query is answered with the requests for those values, and changes nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pprint import pformat
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse

from admin_ui.pages import show
from admin_ui.translation.texts import gettext

FOLLOWED = "calls"  # of the query
_WIDTH = 88


class Call(NamedTuple):
    """`path` is relative to /api/v1/, in segments. `client` is the method of `messaging.client.admin`, which takes `arguments`, the
    body, and the query by name. `command`: the words after ``magnetar``; none where it has no such command."""

    method: str
    path: Sequence[str]
    client: str
    arguments: Sequence[str]
    body: dict[str, Any] | None = None
    query: dict[str, str] = {}
    command: Sequence[str] = ()


class Written(NamedTuple):
    language: str
    text: str


def written(calls: Sequence[Call], base_url: str) -> list[Written]:
    """`base_url`: of the platform, without a slash at its end."""
    commands = [shlex.join(["magnetar", *call.command]) for call in calls if call.command]
    if commands and len(commands) < len(calls):
        commands.append(gettext("# The rest has no command yet: use the API."))
    forms = [
        Written("curl", "\n\n".join(_curl(call, base_url) for call in calls)),
        Written(gettext("Command line"), "\n".join(commands)),
        Written("Python", _python(calls, base_url)),
    ]
    return [form for form in forms if form.text]


def calls_of(request: HttpRequest, calls: Sequence[Call]) -> list[Written]:
    return written(calls, f"{request.scheme}://{request.get_host()}")


def followed(request: HttpRequest) -> bool:
    """Whether only the requests for the values in the query are asked for."""
    return request.method == "GET" and FOLLOWED in request.GET


def show_calls(request: HttpRequest, calls: Sequence[Call]) -> HttpResponse:
    """The answer to that."""
    return show(request, "parts/calls_written.html", calls=calls_of(request, calls))


def _curl(call: Call, base_url: str) -> str:
    path = "/".join(quote(part, safe="@:") for part in call.path)
    url = f"{base_url}/api/v1/{path}" + (f"?{urlencode(call.query)}" if call.query else "")
    lines = [f"curl -X {call.method} {shlex.quote(url)}", '-H "Authorization: Bearer $TOKEN"']
    if call.body is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(call.body, ensure_ascii=False))}"]
    return " \\\n  ".join(lines)


def _python(calls: Sequence[Call], base_url: str) -> str:
    lines = ["from messaging.client.admin import Admin", "", f"admin = Admin({base_url!r}, token=TOKEN)"]
    for call in calls:
        given = [repr(argument) for argument in call.arguments]
        if call.body is not None:
            given.append(pformat(call.body, width=_WIDTH, sort_dicts=False))
        given += [f"{name}={value!r}" for name, value in call.query.items()]
        lines.append(f"admin.{call.client}({', '.join(given)})")
    return "\n".join(lines)
