"""The drivers around `core/reconcile`: a store that commits, leader and holder, and what is held.

`port` is the store: commit, then act. `database_store` keeps it in the database. `leader` runs on each coordinator and
`holder` on each worker that holds something; both talk on the sessions of the crew, as guests of their drivers.
"""
