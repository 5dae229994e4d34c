"""Runs the processes of the platform as children: starts them in parallel, restarts what dies, stops them in order.

    machine     what happens to one child, as a pure table: (state, event) -> (state, effects)
    plan        the children as data, and its JSON form
    process     one child's operating-system side: spawn, readiness, output, signals
    watchdog      a forked process that ends the children when the supervisor was killed
    lock        one supervisor a data directory
    loop        the supervisor: one thread that waits on signals, output and deadlines
    standalone  the plan of `magnetar standalone`, made from the settings
    valkey      the one place that knows the Valkey server from the wheel

The supervisor process imports neither Django nor msgspec nor asyncio: it stays below 15 MiB for as long as the platform runs.
"""
