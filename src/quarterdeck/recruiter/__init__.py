"""Workers reserved for one long search: the pool, the search language, its engine and the root that divides a search."""
