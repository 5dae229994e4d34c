"""The audit log as a stream: records are sent to a webhook as they are written, in their order, each at least once."""
