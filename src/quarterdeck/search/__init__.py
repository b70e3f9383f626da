"""Log search with a crew: its language, its engine, its root, and what a recruited worker does for it."""
