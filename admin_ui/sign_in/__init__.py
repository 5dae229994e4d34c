"""How people sign in: django-allauth behind the console's own pages, permission table, audit log and mail.

Only the web process loads it.
"""
