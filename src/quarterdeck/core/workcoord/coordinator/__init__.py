"""The coordinator's machine: who is in the crew, which work is where, and what to do next."""

from quarterdeck.core.workcoord.coordinator.machine import CoordinatorConfig, CoordinatorMachine

__all__ = ["CoordinatorConfig", "CoordinatorMachine"]
