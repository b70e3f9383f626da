"""Recruiting, simulated: recruiters, workers and roots with their real drivers, under faults."""
