"""The nodes that evaluate a plan, block of steps by block of steps."""
