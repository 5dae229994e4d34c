"""Opening a log after a stop or a crash; verifying and repairing one."""
