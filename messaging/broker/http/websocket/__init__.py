"""Pulsar's WebSocket API ``/ws/v2``: producer, consumer and reader as JSON text frames, and
``/ws/v3``: a consumer of several topics.

`upgrade` decides whether a connection may be, `link` moves frames, and a session (`producer`, `consumer`) says what they mean. A
session does no I/O: it is handed text, gives text out when it is asked, and calls its `Link` when it has something.
"""
