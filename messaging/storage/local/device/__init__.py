"""The disk: direct and asynchronous I/O, and its buffers."""
