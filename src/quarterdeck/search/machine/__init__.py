"""What a search decides: events in, effects out. Pure."""
