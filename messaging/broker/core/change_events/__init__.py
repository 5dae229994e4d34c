"""Records of changes of topic policies, as clients of Pulsar read them from the topic `__change_events` of a namespace. Pure."""
