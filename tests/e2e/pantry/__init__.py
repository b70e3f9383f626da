"""A capability for tests whose workers hold something: jars, which coordinators declare."""
