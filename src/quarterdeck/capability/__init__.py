"""What a package contributes to be a capability of Quarterdeck: to a coordinator, to a worker, to the command line, to
the simulator and to the reference. The layers below get contributions as arguments and name no capability.

This module is light, for the command line: what a process has for its parts is in `coordinator` and `worker`.
"""

from quarterdeck.capability.commands import Command, Shelf
from quarterdeck.capability.model import Capability, CompiledCode, OwnProcess, World
from quarterdeck.capability.offers import Offers

__all__ = ["Capability", "Command", "CompiledCode", "Offers", "OwnProcess", "Shelf", "World"]
