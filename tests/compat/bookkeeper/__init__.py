"""Our client of BookKeeper on real bookies and a real ZooKeeper, beside Apache's own client: ``make clients`` installs them.

install.py   fetches and compiles     cluster.py   starts and kills     Peer.java   Apache's client, told what to do line by line
"""
