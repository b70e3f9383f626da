"""The rules of the plan, one a module."""
