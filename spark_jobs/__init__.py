"""Spark jobs: each runs as a process of its own (`python -m spark_jobs.hourly_usage`), never inside web, broker or worker.

`plan`, `config`, `java` and `checksum` need neither Spark nor Arrow. `session` alone imports PySpark: the rest works on files with
Arrow and NumPy, in Spark's Python workers. Nothing here imports the platform but the usage schema.
"""
