"""A database that an earlier Quarterdeck made, when the tables of metrics were the only ones there were."""

import sqlite3
from contextlib import closing
from pathlib import Path

from quarterdeck.metrics.catalog import Catalog, list_imports
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.schema import schema_version
from tests.contract.database.toys import FRUIT
from tests.metrics.catalog.test_catalog import asked

AS_IT_WAS = """
CREATE TABLE quarterdeck_schema (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT quarterdeck_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO quarterdeck_schema VALUES ('0001');
CREATE TABLE imports (
    import_id TEXT NOT NULL, tenant TEXT NOT NULL, source TEXT NOT NULL, fingerprint TEXT NOT NULL,
    sample_count BIGINT NOT NULL, series_count BIGINT NOT NULL, imported_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_imports PRIMARY KEY (import_id), CONSTRAINT uq_imports_tenant_fingerprint UNIQUE (tenant, fingerprint)
);
CREATE TABLE segments (
    segment_id INTEGER NOT NULL CONSTRAINT pk_segments PRIMARY KEY AUTOINCREMENT, import_id TEXT NOT NULL,
    tenant TEXT NOT NULL, shard INTEGER NOT NULL, shard_count INTEGER NOT NULL, url TEXT NOT NULL,
    version TEXT NOT NULL, min_ts_ms BIGINT NOT NULL, max_ts_ms BIGINT NOT NULL, row_count BIGINT NOT NULL,
    series_count BIGINT NOT NULL, size_bytes BIGINT NOT NULL, checksum TEXT NOT NULL, label_index BLOB NOT NULL,
    CONSTRAINT fk_segments_import_id FOREIGN KEY(import_id) REFERENCES imports (import_id) ON DELETE CASCADE,
    CONSTRAINT uq_segments_url UNIQUE (url)
);
CREATE INDEX ix_segments_import_id ON segments (import_id);
CREATE INDEX ix_segments_tenant_segment_id ON segments (tenant, segment_id);
CREATE TABLE metric_metadata (
    tenant TEXT NOT NULL, metric TEXT NOT NULL, type TEXT NOT NULL, help TEXT NOT NULL, unit TEXT NOT NULL,
    CONSTRAINT pk_metric_metadata PRIMARY KEY (tenant, metric)
);
CREATE TABLE catalog_versions (
    tenant TEXT NOT NULL, version BIGINT NOT NULL, CONSTRAINT pk_catalog_versions PRIMARY KEY (tenant)
);
INSERT INTO imports VALUES ('i1', 'default', 'cpu.om', 'print', 7, 3, 1700000000000);
INSERT INTO segments VALUES (5, 'i1', 'default', 0, 1, 't/a', 'v', -5, 99, 7, 3, 100, 'xxh3_128:0', x'00ff');
INSERT INTO catalog_versions VALUES ('default', 1);
"""


def test_what_was_imported_is_there_and_other_owners_join(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(AS_IT_WAS)
    with closing(open_database(file, [METRICS_SCHEMA, FRUIT])) as database:
        database.upgrade()
        assert database.read(lambda connection: schema_version(connection, METRICS_SCHEMA)) == "0001"
        assert database.read(lambda connection: schema_version(connection, FRUIT)) == FRUIT.newest
        (kept,) = database.read(lambda connection: list_imports(connection, "default"))
        assert (kept.source, kept.sample_count, kept.first_ms) == ("cpu.om", 7, -5)
        (segment,) = asked(Catalog(InlineDatabase(database), "/lake")).segments
        assert (segment.segment_id, segment.object.url, segment.label_index) == (5, "/lake/t/a", b"\x00\xff")
