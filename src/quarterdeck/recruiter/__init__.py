"""Workers reserved for one caller: the pool, the reservation, and their API."""
