"""What a client of BookKeeper decides, without I/O: no event loop, socket, clock or random number is used here."""
