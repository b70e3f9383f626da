"""A search over one chunk, and one answer of the chunks' answers, by DuckDB. Blocking: in a thread of whoever calls."""
