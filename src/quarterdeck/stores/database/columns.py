"""The columns that tables of all owners are made of, so that they mean the same in SQLite and in Postgres.

Text compares by its bytes (collation C; SQLite does this by itself). So both databases order it alike, and an index
does not depend on the operating system's idea of a language. Times are milliseconds since 1970.
"""

from typing import Final

from sqlalchemy import BigInteger, Integer, MetaData, Text

TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
RISING: Final = BigInteger().with_variant(Integer(), "sqlite")
"""For an `Identity()` that is the primary key. In SQLite an INTEGER has 64 bits, and only under that name does it count
by itself. `sqlite_autoincrement=True` of the table makes sure that no number is used twice."""


def new_metadata() -> MetaData:
    """For the tables of one owner. Constraints have names, without which no migration could drop them."""
    return MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
