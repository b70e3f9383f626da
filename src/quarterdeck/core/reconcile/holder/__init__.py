"""The worker's machine for declared things: what it holds, whom it obeys, and what it reports."""

from quarterdeck.core.reconcile.holder.machine import HolderConfig, HolderMachine

__all__ = ["HolderConfig", "HolderMachine"]
