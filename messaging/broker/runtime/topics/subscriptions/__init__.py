"""The subscriptions of a topic, and how they change.

subscriptions.py              creating, moving and deleting them, and attaching consumers
effects.py                    what consumers and administrators do to a subscription: change, store, dispatch
acknowledgements.py           checks and applies one acknowledgement
cursor_recovery.py, cursor_writes.py    how cursors are restored, and how often they are written
dead_letter_state.py, properties.py, expired_chunks.py    what else belongs to a subscription
"""
