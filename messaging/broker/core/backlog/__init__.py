"""What is read from storage for subscriptions that are behind the cached entries of their topic. Everything in here is pure:
`plan.py` decides which reads to start and to cancel and who can be sent something, `runtime/topics/backlog_reader.py` does it."""
