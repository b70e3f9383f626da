"""What Alembic runs for each command: the migrations of one schema, on the caller's connection and in the caller's
transaction."""

from alembic import context

given = context.config.attributes
context.configure(connection=given["connection"], version_table=given["version_table"])
context.run_migrations()
