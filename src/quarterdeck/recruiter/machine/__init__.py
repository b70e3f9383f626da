"""What the recruiter and a worker decide: events in, effects out. Pure."""
