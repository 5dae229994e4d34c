"""The broker: decisions in `core`, the asyncio shell in `runtime`, listeners for HTTP in `http`, usage records in `usage`."""
