"""The pages of a process for a person with a browser: what is here, and how to ask it."""
