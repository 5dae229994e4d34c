"""Metering: rates and totals of topics and tenants, and their usage records."""
