"""The jump dialog: pages, actions and everything that has a name, found from the keyboard."""
