"""The broker's copy of the control plane: tenants, grants, keys, policies, and what a change of them does."""
