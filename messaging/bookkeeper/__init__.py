"""An asyncio client of Apache BookKeeper, for itself: it knows nothing of brokers and imports nothing else of this project.

core/       what it decides, without I/O: the bytes of entries and packets, and the metadata of ledgers
errors.py   what can go wrong
"""
