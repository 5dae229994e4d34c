"""The asyncio shell of the broker: it carries out what `core` decides."""
