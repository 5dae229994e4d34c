"""What is wrong on the platform: the kinds of problems, and their order. Pure."""
