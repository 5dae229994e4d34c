"""The control plane: tenants, namespaces, policies, grants and keys, their REST APIs, and the feed to the brokers."""
