"""Backups: copies of everything that the platform stores, of one moment, taken while it runs; and how they are put back.

    manifest.py    what a backup says of itself, and how it is checked
    copies.py      files that are copied with their checksums
    databases.py   what a database holds at one moment, as a file
    brokers.py     brokers that hold still for that moment
    take.py        makes a backup
    restore.py     puts one back into an empty data directory and empty databases
    last.py        when the last one was taken
    audited.py     both in the audit log

[ADR 70](../../../docs/adr/0070-a-backup-is-of-one-moment.md) has the decisions, docs/backup.md the commands.
"""
