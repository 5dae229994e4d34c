"""Django's SQLite backend, with disk space of its own: a full disk keeps nobody from signing in and from freeing some."""
