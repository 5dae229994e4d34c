"""Who may do what: the permission table of all entrances, and the function that decides."""
