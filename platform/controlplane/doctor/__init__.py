"""`magnetar doctor`: checks the installation and the running platform."""
