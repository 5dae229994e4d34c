"""A reader of pages without a browser."""

from __future__ import annotations

import http.cookiejar
import re
import urllib.parse
import urllib.request


class Browser:
    """Forms and cookies, no more; real browsers are driven in tests/admin_ui."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def get(self, path: str) -> str:
        with self.opener.open(self.url + path, timeout=20) as response:
            text: str = response.read().decode()
            return text

    def sign_in(self, name: str, password: str) -> str:
        page = self.get("/sign-in")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token
        form = {"csrfmiddlewaretoken": token[1], "username": name, "password": password, "next": "/"}
        request = urllib.request.Request(f"{self.url}/sign-in", urllib.parse.urlencode(form).encode(), {"Origin": self.url})
        with self.opener.open(request, timeout=20) as response:
            text: str = response.read().decode()
            return text
