"""Delayed messages of a topic.

delivery.py                   the index of one topic and its deliveries when messages are due; timers.py waits for all topics
index_jobs.py                 what the index has stored, merged and read again
due_reader.py                 reads the next due messages from the stored runs of the index; run_store.py, run_entries.py store them
run_threads.py, due_threads.py    what threads do
limits.py, counts.py          which delivery times are allowed, and how many messages may wait
changes.py, overrides.py      cancelling and rescheduling; scan.py looks for the messages
due_list.py, messages.py      listing and counting
"""
