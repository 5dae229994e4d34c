"""An asyncio client of Apache BookKeeper, for itself: it knows nothing of brokers and imports nothing else of this project.

core/       what it decides, without I/O: bytes of entries and packets, metadata, and machines that write, read and recover ledgers
metadata/   where metadata is: an interface, memory, ZooKeeper (the extra `bookkeeper`)
shell/      connections to bookies, and what carries the machines out in an event loop
client.py   the client; config.py its settings, errors.py what can go wrong
"""
