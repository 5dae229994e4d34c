"""How our API reads the bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from messaging import bodies


class JSONBodyParser(JSONParser):
    """JSON in UTF-8, whatever the request calls it, and of a limited number of values. Raises `InvalidValue`, `ParseError`."""

    # A JSONParser, because REST framework hands those the body that Django has read, within Django's limit of its size.

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        try:
            return bodies.decode(stream.read(), object)
        except bodies.NotJson as error:
            raise ParseError(error.message) from None
