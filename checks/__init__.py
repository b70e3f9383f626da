"""Checks of this project's own rules, over the syntax tree."""
