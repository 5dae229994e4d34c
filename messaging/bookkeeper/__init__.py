"""An asyncio client of Apache BookKeeper, for itself: it knows nothing of brokers and imports nothing else of this project.

core/       what it decides, without I/O: bytes of entries and packets, metadata, and machines that write, read and recover ledgers
errors.py   what can go wrong
"""
