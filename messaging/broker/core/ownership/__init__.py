"""Which broker owns which bundle, as one broker knows it: look-ups, placement, balancing and the lease. Pure."""
