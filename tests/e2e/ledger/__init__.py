"""A capability for tests that declares state: a ledger, into which only the coordinator that leads may write."""
