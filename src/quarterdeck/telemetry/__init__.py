"""How a process reports what it does: logs, metrics, traces.

Nothing is imported here, and the modules load their libraries when they are first used: a command that only prints its
help pays for none of them.
"""
