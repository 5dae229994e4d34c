"""Who gets which entries next: one dispatch strategy for each subscription type."""
