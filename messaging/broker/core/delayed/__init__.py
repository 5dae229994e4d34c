"""Messages that are delivered later. Everything in here is pure: the time is an argument.

index.py          when each delayed entry of a topic is due: an interface, and the one that is kept in memory
time_slots.py     what that one is made of
run_index.py      the one that is kept in sorted runs in storage, and run_jobs.py, the jobs that it asks for
newest.py         what no run of it has yet
run_format.py     runs as bytes; run_head.py and run_merge.py read and merge them
entry_sets.py     sets of entries, one bitmap per ledger
reading.py        the read position of a subscription that delays: it skips what is pending
delayed_entries.py    which entries that one subscription had passed over are due now
due_ahead.py      what is read before it is due; due_reads.py plans the reads, gathered_block.py is what is sent
topic_delays.py   the index and the subscriptions of one topic, and when to look again
"""
