"""Who gets which entries next.

    strategy.py       what a dispatch strategy promises; one for each subscription type, listed in `strategies.py`
    exclusive.py, failover.py, shared.py     the strategies; `single_active.py` is what the first two have in common, `holding.py`
                      what those have in common whose consumers all receive
    sources.py        where the entries to send come from: redeliveries first, then delayed messages that are due
                      (`core/delayed/`), then the read position
    state.py          what strategies and their subscription share

A new subscription type is a module here and a row in `strategies.py`. Everything in here is pure.
"""
