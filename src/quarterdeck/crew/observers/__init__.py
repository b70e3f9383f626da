"""What sees every step of a machine and changes nothing: metrics, logs, and what became of each query."""
