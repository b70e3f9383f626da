"""What the recruiter, a worker and a root decide: events in, effects out. Pure."""
