"""What is read from storage for subscriptions that need older entries than the entry cache has. Everything in here is pure:
`plan.py` decides which reads to start and to cancel and who can be sent something, `runtime/topics/backlog/reader.py` does it."""
