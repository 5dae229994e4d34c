"""The subscriptions of a topic, and how they change.

topic_subscriptions.py        finding, changing and deleting them; persistent_subscriptions.py, non_persistent_subscriptions.py
consumers.py                  attaching consumers, and what they ask for
acknowledgements.py           what consumers, administrators and maintenance acknowledge
cursor_changes.py             every change of a cursor: stored, then dispatched
cursor_recovery.py, cursor_writes.py    how cursors are restored, and how often they are written
dead_letter_state.py, properties.py     what else belongs to a subscription
"""
