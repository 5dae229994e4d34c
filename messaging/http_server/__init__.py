"""The HTTP server of the broker and of the web process: uvicorn, with bounds where it has none.

transfer.py   at what rate a peer has to send and to read (pure)
places.py     who may hold a connection, and who makes room (pure)
protocol.py   one connection: deadlines, bounded heads and pipelining
websocket.py  one WebSocket: what is read ahead of its application, and messages that do not end
tls.py        the handshake before it
lanes.py      which requests are worked on, which wait, and health checks before all
server.py     all of it put together
"""
