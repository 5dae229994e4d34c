"""History in the database of the control plane: what was carried and held, and when
([ADR 71](../../docs/adr/0071-history-is-points-of-what-was-active.md))."""
