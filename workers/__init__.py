"""What is done over all topics and tenants behind their backs, by Celery: on a schedule, or when somebody asks for it.

What a policy promises at the moment of delivery the owning broker keeps by itself; a task here tells the broker through its admin
RPC. Spark never runs in this process: a job is a child process.

    schedule        what runs, and how often: the table of all tasks
    tasks/ redrive/ alerts/ billing/ findings/ compaction usage_*   what they do
    requests        what other processes ask for
    queue           where a run waits: the table of runs
    beat            Celery's schedule: asks for what is due
    process         Celery's worker: transport (reads the queue), app (the tasks); `controlplane.worker` starts both
    runs            one run: its lease, its outcome, its repetition
    carriers        tasks of many tenants, in turns
    rating/         invoices of usage and price plans, pure
    rest/, history  what ran, for administrators
"""
