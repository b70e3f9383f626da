"""The worker's machine: which coordinators it serves, what it runs for each, and what it keeps for them."""

from quarterdeck.core.workcoord.worker.machine import WorkerConfig, WorkerMachine

__all__ = ["WorkerConfig", "WorkerMachine"]
