"""Work coordination as two pure machines: the coordinator's view of a crew, and a worker's view of its sessions."""
