"""Native histograms: one sample that holds a whole distribution. Values and arithmetic; nothing here knows a query."""
