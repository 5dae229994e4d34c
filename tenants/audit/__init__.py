"""The audit log: a chain of records that only grows.

- `links`: the hash of a record, and what a chain of them must satisfy. Pure.
- `chain`: appends records, in the transaction of what they speak of
- `verification`: reads a whole chain and names what is wrong with it
- `triggers`: what makes the database refuse a change of a record
- `reading`: pages and filters
"""
