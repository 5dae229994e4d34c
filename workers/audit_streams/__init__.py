"""The audit log as a stream: records are sent to a webhook or a topic as they are written, in their order, each at least once."""
