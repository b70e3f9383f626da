"""Who leads: one row in a store, held for as long as its holder changes it.

`machine` decides, `model` has the row and the times, `table` the states of a candidate. It must not know the store.
"""
