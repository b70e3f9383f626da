"""The commands that search logs. Each is in a module of its own, which is loaded only when it is called."""
