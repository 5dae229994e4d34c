"""The broker's HTTP and WebSocket listeners: admin RPC, health, metrics, Pulsar's WebSocket API. Plain ASGI under uvicorn."""

from messaging.broker.http.server import HttpListeners, start_http

__all__ = ["HttpListeners", "start_http"]
