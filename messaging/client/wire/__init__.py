"""Pulsar's binary protocol as a client speaks it: bytes and states without I/O, and thin shells of asyncio around them."""
