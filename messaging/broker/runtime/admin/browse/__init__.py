"""Browsing the messages of a topic: a piece of it is read on the loop, in turns of tenants, and looked at in a thread.

    slices      reads entries in either direction, and puts the chunks of large messages together
    matches     unpacks entries and finds the messages that are looked for: pure
    handlers    the method: limits of a call, turns, memory, and where the next call goes on

A call reads so many entries and bytes, and goes on for so long; what it did not come to is left for the next. It takes nothing from
subscriptions, moves no cursor, and leaves nothing in the cache that dispatch reads from.
"""
