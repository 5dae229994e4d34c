"""Other stock clients: tests/compat/clients has a program for each language, which tries every feature that its client offers and
prints a JSON line for each.

A program gets one argument, a JSON object of strings:

    broker, token             where to connect, and as whom
    topics                    a prefix of topics that do not exist yet
    partitioned, single       topics with three partitions and with one
    ended                     a terminated topic that holds the message "last"
    compacted                 a topic of which a compaction left "a2" of the key a and "c1" of the key c
    hashed                    a topic with three partitions
    interwoven                a topic with the messages "first" and "second" in chunks, one between those of the other
    unfinished                a topic with the first chunk of a message that is never completed, and the message "after"
    admin                     URL of the admin API
    enforced                  a prefix of topics that only producers with a schema may use, where they have one
    deduplicated              a prefix of topics where deduplication is on
    public_key, private_key   files in PEM
    trust                     a certificate in PEM to trust, where the connection is TLS
    only                      names of features, separated by commas: all, if it is missing
    campaign                  Go only: be a client of a campaign instead, as Campaign.java is (tests/compat/fleet/programs.py)

`make clients` installs the clients; what each of them needs is in `install.py`. `features.json` says what each client offers, and
docs/client-matrix.md is made from it.
"""

from tests.compat.probes.install import CLIENTS, Client, install_all
from tests.compat.probes.matrix import NOT_YET, OFFERED, PAGE, page
from tests.compat.probes.run import Keys, Result, make_keys, probe_all, probe_tls

__all__ = [
    "CLIENTS",
    "NOT_YET",
    "OFFERED",
    "PAGE",
    "Client",
    "Keys",
    "Result",
    "install_all",
    "make_keys",
    "page",
    "probe_all",
    "probe_tls",
]
