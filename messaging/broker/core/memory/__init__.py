"""The memory budget: its accounts, what is charged to them, and when reading from producers pauses."""
