"""The highest fence that a database has seen: what refuses a leader that another one has followed.

`tables` contributes the row, `checked` checks it inside a transaction. It must not know who elects leaders, nor where.
"""
