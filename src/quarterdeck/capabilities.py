"""The list of capabilities: the one place that knows them all."""
