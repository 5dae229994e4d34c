"""The console: the web pages of the platform."""
