"""Messages that are delivered later. Everything in here is pure: the time is an argument.

index.py          when each delayed entry of a topic is due: an interface, and the one that is kept in memory
entry_sets.py     sets of entries, one bitmap per ledger
delayed_entries.py    which entries one subscription passed over because they were not due, and which of those are due now
topic_delays.py   the index and the subscriptions of one topic, and when to look again
"""
