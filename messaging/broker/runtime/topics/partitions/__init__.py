"""Partitioned topics, and the topics behind their partitions."""
