"""Log to consumers.

dispatcher.py                 sends the entries of a topic to its subscriptions; direct_dispatcher.py without storage in between
entry_cache.py                blocks that are kept in memory
retries.py                    what happens after a dispatch that raised
delivery_records.py, delivery_log.py, delivery_state.py    for those who ask why nothing is sent, or what became of a message
topic_end.py                  consumers of a terminated topic
"""
