"""What tenants are told: alerts by rules on their topics, and keys that expire soon; in the console, by webhook and by mail."""
