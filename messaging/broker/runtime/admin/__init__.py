"""The methods of the admin RPC, and what they tell of topics."""
