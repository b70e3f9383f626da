"""A world of declared things: coordinators elect a leader over one database, and workers hold what it says."""
