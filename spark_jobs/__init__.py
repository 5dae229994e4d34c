"""Spark jobs: each runs as a process of its own (`python -m spark_jobs.hourly_usage`), never inside web, broker or worker.

`plan`, `java` and `checksum` need no Spark; the rest imports PySpark. Nothing here imports the platform but the usage schema.
"""
