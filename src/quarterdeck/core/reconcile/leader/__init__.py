"""The coordinator's machine for declared things: what is to be done so that the crew holds what is committed."""

from quarterdeck.core.reconcile.leader.config import LeaderConfig
from quarterdeck.core.reconcile.leader.machine import LeaderMachine

__all__ = ["LeaderConfig", "LeaderMachine"]
