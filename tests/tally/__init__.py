"""A capability that is not of Quarterdeck's own: `POST /v1/tally` counts the words of a text on a worker, and remembers
all counts in a table. It uses every part of the protocol, and is the example of docs/capabilities.md.
"""
