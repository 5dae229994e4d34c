"""Pulsar's binary protocol on a socket: `connection` has the fast path, `commands` the table of everything else."""
