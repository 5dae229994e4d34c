"""Which language a request gets: the one that was chosen in this browser, else the first that the browser asks for and there is."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.translation.trans_real import parse_accept_lang_header

from messaging.languages import ENGLISH

COOKIE = "language"
COOKIE_AGE_S = 365 * 24 * 3600
# Answers to programs, whose texts are searched for and compared: always in English.
PROGRAMS = ("/api/", "/admin/", "/lookup/", "/internal/", "/docs", "/metrics", "/health")


def language_of(request: HttpRequest) -> str:
    if request.path_info.startswith(PROGRAMS):
        return ENGLISH
    chosen = request.COOKIES.get(COOKIE, "")
    if chosen in dict(settings.LANGUAGES):
        return chosen
    for name, _ in parse_accept_lang_header(request.headers.get("Accept-Language", "")[:200]):
        language: str = name.partition("-")[0]
        if language in dict(settings.LANGUAGES):
            return language
    return ENGLISH


class Language:
    """Middleware: pages are written in the language of the request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with translation.override(language_of(request)):
            return self._get_response(request)
