"""The row that says who leads, in a database: `tables` contributes it, `row` carries out what a candidate asks for.

It must not know when a candidate asks: that is `core/leadership`.
"""
