"""The subscriptions of a topic, and how they change.

subscriptions.py              creating, moving and deleting them, and attaching consumers
cursor_changes.py             every change of a cursor: stored, then dispatched
acknowledgements.py           what consumers acknowledge
effects.py                    what else consumers and administrators do to a subscription
cursor_recovery.py, cursor_writes.py    how cursors are restored, and how often they are written
dead_letter_state.py, properties.py, expired_chunks.py    what else belongs to a subscription
"""
