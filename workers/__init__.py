"""Maintenance: Celery worker and beat in one process (`controlplane.worker`), their schedule, and the records of what ran.

What a policy promises at the moment of delivery the owning broker keeps by itself; what is done over all topics on a schedule is
a task here, which tells the broker through its admin RPC. Spark never runs in this process: a job is a child process.
"""
