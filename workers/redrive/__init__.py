"""Redrive of dead letters: jobs that move messages of a topic back to where they came from, or anywhere else."""
