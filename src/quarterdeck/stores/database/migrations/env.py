"""What Alembic runs for each command: the migrations, on the connection and in the transaction of whoever calls."""

from alembic import context

from quarterdeck.stores.database.schema import VERSION_TABLE
from quarterdeck.stores.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
