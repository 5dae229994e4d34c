"""Why a subscription is not sent messages, how it fares, and what became of a message."""
