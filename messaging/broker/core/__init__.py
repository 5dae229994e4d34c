"""The decisions of the broker, without event loop, socket, clock or random numbers: the time is an argument."""
