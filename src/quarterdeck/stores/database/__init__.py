"""The database: what must survive a restart and be seen by several processes, in SQLite or in Postgres.

`port` is what the rest of Quarterdeck uses. `opening` makes a `SqlDatabase` of a URL, which blocks; `threaded` puts it
behind threads for a process with an event loop, `inline` calls it in place for the simulator. `tables` and `migrations`
are the schema. It must not know what the rows mean.
"""
