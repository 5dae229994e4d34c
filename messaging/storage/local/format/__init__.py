"""The formats of all files of a log."""
