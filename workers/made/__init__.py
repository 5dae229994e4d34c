"""What somebody made in a tenant, or changed last, and is still there: it goes on when they may do nothing any more.

- `kinds`: what there is to make, which records of the audit log speak of it, and what of it exists
- `reading`: a page of it, out of the audit log
- `rest`: the same over /api/v1
"""
