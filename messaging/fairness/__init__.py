"""What tenants share is taken in turns: one item of each after the other, and nobody has more than is left for the others.

`queue` and `slots` decide and are pure; `turns` is for tasks of an event loop, `threads` for blocking calls, `waiting` for threads
that wait themselves, `blocking` is a queue between threads. Whoever no longer waits for a slot is not served."""
