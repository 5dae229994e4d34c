"""History: what topics carried and held, minute by minute. Shared by brokers, which take the points, and by those who keep and read
them. Pure ([ADR 71](../../docs/adr/0071-history-is-points-of-what-was-active.md))."""
