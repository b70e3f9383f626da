"""Answers of leaves on their way from a worker to the coordinator: blocks to record batches and back."""
