"""The catalog is tested in both databases."""

from tests.contract.database.conftest import place, postgres_server, server

__all__ = ["place", "postgres_server", "server"]
