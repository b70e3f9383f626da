"""The read API of Prometheus, as far as it does not depend on how a query is run: parameters in, bytes out."""
