"""The coordinator's machine for declared things: what is to be done so that the crew holds what is committed."""

from quarterdeck.core.reconcile.leader.machine import LeaderConfig, LeaderMachine

__all__ = ["LeaderConfig", "LeaderMachine"]
