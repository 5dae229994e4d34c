"""The stats of topics and subscriptions, with Pulsar's names and spellings."""
