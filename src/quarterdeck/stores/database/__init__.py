"""The database: data that must survive a restart and that several processes must see, in SQLite or in Postgres.

`port` is what the rest of Quarterdeck uses. `opening` makes a `SqlDatabase`, which blocks, from a URL and the schemas
it has to have. `threaded` puts it behind threads for a process with an event loop; `inline` calls it in place for the
simulator. An owner of tables declares them with `columns` and contributes them, with their migrations, as a `Schema`.
This package must not know what the rows mean, nor who owns them.
"""
