"""Who may talk to a process: certificates, the shared token, and whether it may listen at all."""
