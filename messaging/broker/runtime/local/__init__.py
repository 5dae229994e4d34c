"""Producers and consumers inside the broker's own process: what the WebSocket API and health checks use."""
