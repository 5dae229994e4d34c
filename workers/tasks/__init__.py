"""The work of each task: a function of the environment and ids, safe to run twice."""
