"""Which topics there are: patterns of names, and who looks for new ones."""
