"""Dead letters: which entries are dead, how they move to their target, and back."""
