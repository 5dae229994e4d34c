"""The control plane's feed on this broker.

follower.py                   takes pages in, one at a time: pushed, or pulled by client.py
store.py                      the copy on disk
policy_changes.py             tells loaded topics that their policies changed
"""
