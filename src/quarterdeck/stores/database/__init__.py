"""The database: what must survive a restart and be seen by several processes, in SQLite or in Postgres.

`port` is what the rest of Quarterdeck uses. `opening` makes a `SqlDatabase` of a URL and of the schemas that it has to
have, which blocks; `threaded` puts it behind threads for a process with an event loop, `inline` calls it in place for
the simulator. Who owns tables declares them with `columns` and contributes them, with their migrations, as a `Schema`.
It must not know what the rows mean, nor who owns them.
"""
