"""Django's backend for PostgreSQL with connections that are looked at before they are used."""
