"""Moving subscriptions: the forms that say how far, and the sentences that say what a move does."""
