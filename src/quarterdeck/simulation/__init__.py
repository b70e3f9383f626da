"""The deterministic simulator: event loop, virtual clock, simulated transport, faults and invariants.

The same seed and the same program give the same run, so that any failure can be replayed from its seed.
"""
