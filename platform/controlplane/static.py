"""Static files, straight from the packages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """The file in one piece: it is small, and Django warns about files that it should stream from the event loop."""
        served = static_file.get_response(request.method, request.META)
        content = b""
        if served.file is not None:
            with served.file:
                content = served.file.read()
        response = HttpResponse(content, status=int(served.status))
        del response["content-type"]
        for name, value in served.headers:
            response[name] = value
        return response
