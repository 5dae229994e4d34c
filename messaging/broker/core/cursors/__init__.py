"""What a subscription has acknowledged: its cursor and its deltas, acknowledgements and their validation, memory."""
