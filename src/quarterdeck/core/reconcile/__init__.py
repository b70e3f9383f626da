"""Declared things: what is wanted is committed, workers report what they hold, and two machines close the gap.

`leader` decides, on the coordinator that leads; `holder` holds, on each worker. Both are level-triggered: they compare
what is committed with what is reported, so a message, a reply or a process that is lost only delays.
"""
