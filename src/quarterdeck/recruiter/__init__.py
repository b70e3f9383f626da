"""Workers reserved for one caller: the pool, and log search with its language, its engine and its root."""
