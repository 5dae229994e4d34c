"""The live feed of a namespace for a browser: a snapshot, then updates, for as long as the reader may see the namespace.

The address says of which topics: of the first `limit` after the full name `after` whose names contain `q`; of one `topic` (full
name); or, with `watch`, of those that the page names in its first message, ``{"type": "watch", "topics": [short name, ...]}``.

Server to browser: the messages of `admin_ui.live.state`, and ``{"type": "away", "why", "since_ms"}`` after a poll that failed.
Browser to server: ``{"type": "resync"}`` when it noticed a gap: the next message is a snapshot.
Close codes: 4401 not signed in (any more), 4404 no such namespace for the reader, 4429 too many feeds of one person. They are sent
after the handshake, because a browser does not tell a page why a handshake failed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import parse_qs

import msgspec
from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils import timezone
from msgspec import Meta

from admin_ui.access import websocket_refusal, websocket_right_ends
from admin_ui.addresses import full_name
from admin_ui.live.hub import Feed, FeedStatus, LiveHub
from admin_ui.live.rights import RightsWatch
from admin_ui.live.shared import live_hub, live_watchers, rights_watch
from admin_ui.live.state import LiveState
from admin_ui.live.watchers import Watchers
from admin_ui.topic_list import PAGE as WATCHED_MAX
from admin_ui.topic_list import WHOLE_MAX
from messaging.adminrpc.topics import LiveAsked
from messaging.errors import InvalidName
from messaging.json_types import converted
from messaging.protocol.names import parse_topic
from tenants.http.threads import in_database_thread

CHECK_AGAIN_S = 10.0  # what no record tells of, such as the end of a session, is noticed after that long
_END_S_MIN = 0.05  # what ends this moment has ended then
_ROUTE = "console:namespace_live"
MESSAGE_BYTES_MAX = 65_536
TOO_MANY = 4429
_WATCHED: Any = Annotated[list[str], Meta(min_length=1, max_length=WATCHED_MAX)]  # names of topics


class NamespaceLiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels is not typed
    _task: asyncio.Task[None] | None = None
    _resync = False
    check_again_s = CHECK_AGAIN_S

    @staticmethod
    def watchers() -> Watchers:
        return live_watchers()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.watchers().leave(self)

    @staticmethod
    def hub() -> LiveHub:
        return live_hub()

    async def connect(self) -> None:
        if not self.watchers().arrive(self):
            await self.close(TOO_MANY)
            return
        await self.accept()
        refused, _ = await self._refusal()
        if not refused and not self.watchers().sign_in(self, self.scope["user"].pk):
            refused = TOO_MANY
        if refused:
            await self.close(refused)
            return
        query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"))
        self._asked = self._asked_of({name: texts[0] for name, texts in query.items()})
        self._task = asyncio.create_task(self._serve(), name="live page")

    async def disconnect(self, code: int) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data is None or len(text_data) > MESSAGE_BYTES_MAX:
            await self.close(1003)
            return
        try:
            message: Any = msgspec.json.decode(text_data)
        except msgspec.DecodeError:
            await self.close(1003)
            return
        if not isinstance(message, dict):
            return
        if message.get("type") == "resync":
            self._resync = True
        elif message.get("type") == "watch" and not self._asked.done():
            try:
                names = converted(message.get("topics"), _WATCHED)
                topics = [str(parse_topic(str(full_name(*self._namespace, name)))) for name in names]
            except (msgspec.ValidationError, InvalidName):
                await self.close(1003)
                return
            self._asked.set_result(LiveAsked(namespace="/".join(self._namespace), names=topics))

    @property
    def _namespace(self) -> tuple[str, str]:
        kwargs = self.scope["url_route"]["kwargs"]
        return kwargs["tenant"], kwargs["namespace"]

    def _asked_of(self, query: dict[str, str]) -> asyncio.Future[LiveAsked]:
        """What the address asks for; of one that says `watch` it comes with a message."""
        asked: asyncio.Future[LiveAsked] = asyncio.get_running_loop().create_future()
        namespace, limit = "/".join(self._namespace), query.get("limit", "")
        if query.get("topic"):
            asked.set_result(LiveAsked(namespace=namespace, names=[query["topic"]]))
        elif not query.get("watch"):
            rows = min(max(1, int(limit)), WHOLE_MAX) if limit.isascii() and limit.isdigit() and len(limit) < 6 else WHOLE_MAX
            words, after = query.get("q", "").lower(), query.get("after", "")
            asked.set_result(LiveAsked(namespace=namespace, rows_max=rows, words=words, after=after))
        return asked

    async def _refusal(self) -> tuple[int, float]:
        """0, or the code to close with; and after how many seconds to look again, at the latest."""
        look: Callable[[], Awaitable[tuple[int, datetime | None]]] = in_database_thread(self._look)
        code, ends = await look()
        to_end_s = self.check_again_s if ends is None else max(_END_S_MIN, (ends - timezone.now()).total_seconds())
        return code, min(self.check_again_s, to_end_s)

    def _look(self) -> tuple[int, datetime | None]:
        code = websocket_refusal(self.scope, _ROUTE)
        return code, None if code else websocket_right_ends(self.scope, _ROUTE)

    @staticmethod
    def rights() -> RightsWatch:
        return rights_watch()

    async def _serve(self) -> None:
        """Sends states until the reader may no longer see them."""
        tenant, user = self.scope["url_route"]["kwargs"]["tenant"], self.scope["user"]
        async with self.rights().reading(tenant, user.role) as reader:
            pump = asyncio.create_task(self._pump(), name="live page states")
            try:
                while not pump.done():
                    refused, again_s = await self._refusal()  # first of all for what changed since the page was let in
                    if refused:
                        await self.close(refused)
                        return
                    changed = asyncio.create_task(reader.changed.wait())
                    try:
                        await asyncio.wait((pump, changed), timeout=again_s, return_when=asyncio.FIRST_COMPLETED)
                    finally:  # also when the page is left
                        changed.cancel()
                    reader.changed.clear()
                pump.result()
            finally:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)

    async def _pump(self) -> None:
        async with self.hub().watch(await self._asked) as feed:
            sent: LiveState | None = None
            version = 0
            while True:
                status = await feed.after(version)
                version = status.version
                if self._resync:
                    self._resync, sent = False, None
                sent = await self._send_update(feed, status, sent)

    async def _send_update(self, feed: Feed, status: FeedStatus, sent: LiveState | None) -> LiveState | None:
        if status.away:
            message = {"type": "away", "why": status.away, "since_ms": status.away_since_ms}
            await self.send(text_data=msgspec.json.encode(message).decode())
            return sent
        assert status.state is not None
        encoded = feed.encoded(sent, status.state)
        await self.send(text_data=encoded.decode())
        return status.state
