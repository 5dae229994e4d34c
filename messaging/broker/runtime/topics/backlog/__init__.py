"""What a topic has stored and not delivered: reading, sizes, ages and the quota.

reader.py, scheduler.py, stored_blocks.py    reads for subscriptions that are behind the entry cache
quota.py                      enforces the backlog quota; sizes.py and age.py measure
stored_entries.py             single entries, read from memory or from storage
"""
