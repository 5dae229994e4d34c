"""Where the metadata of ledgers and the list of bookies are: an interface, one in memory for tests, and ZooKeeper."""
