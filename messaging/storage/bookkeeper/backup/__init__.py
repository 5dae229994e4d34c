"""Backups of a store on bookies: its ledgers are read from them into files (`copying.py`, `packs.py`), and written from files into
another BookKeeper under the ids that clients know (`restoring.py`). No broker runs this: `magnetar backup` does."""
