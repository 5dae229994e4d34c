"""How our API reads the bodies of requests."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import JSONParser

from messaging.limits.json_values import check_values


class JSONBodyParser(JSONParser):
    """JSON in UTF-8, whatever the request calls it, and of a limited number of values. Raises `InvalidValue`."""

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        body = stream.read()
        check_values(body)
        return super().parse(io.BytesIO(body))
