"""Query parameters: what a route does not know must not be passed over as if nobody had asked for it."""

from __future__ import annotations

from django.http import HttpRequest, QueryDict

from messaging.errors import InvalidValue

SHOWN_LENGTH_MAX = 80
READING = ("GET", "HEAD", "OPTIONS")


def check_declared(query: QueryDict, names: frozenset[str]) -> None:
    """Raises `InvalidValue` for a parameter that is not among `names`, or comes twice."""
    for name, values in query.lists():
        if name not in names:
            offered = f"use {', '.join(sorted(names))}" if names else "there are none here"
            raise InvalidValue(f"query parameter {name[:SHOWN_LENGTH_MAX]!r} is unknown: {offered}")
        if len(values) > 1:
            raise InvalidValue(f"query parameter {name!r} is given {len(values)} times: give it once")


def check_no_dry_run(request: HttpRequest) -> None:
    """Raises `InvalidValue` for a change with a parameter such as `dryRun`.

    Pulsar's API has no dry runs, and ignores parameters that it does not know: what was only to be tried would be done."""
    if request.method in READING:
        return
    for name in request.GET:
        if name.lower().replace("-", "").replace("_", "") == "dryrun":
            raise InvalidValue(f"query parameter {name!r}: there is no dry run here, and nothing was changed: leave it out")
