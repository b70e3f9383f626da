"""What a query does: the logical plan, its rules, and the leaves that are sent to where the samples are."""
