"""The Django project, the `magnetar` command, the supervisor and the doctor: everything is put together here."""
