"""The control stream: envelopes of messages on a connection that either side may have dialled.

It carries what the two machines say to each other, in order, and notices when a peer is gone. It knows no work: only
the machines know what the messages mean.
"""
