"""Feeds what reads the wire with bytes that a coverage-guided fuzzer makes up (`-m checks.fuzz_wire rows -runs=9`).

`control` is the codec of the control stream, `frames` and `rows` are answers of search, `artifact` is what workers
leave to be fetched, `tasks` are the documents that are asked and answered. See `hostile` for what each of them
promises. The other arguments are libFuzzer's.
"""

import sys

import atheris  # pyright: ignore[reportMissingTypeStubs]

_READERS = (
    "quarterdeck.control.codec",
    "quarterdeck.crew.artifacts",
    "quarterdeck.metrics.tasks",
    "quarterdeck.metrics.transfer",
    "quarterdeck.search.chunk_request",
    "quarterdeck.search.frames",
    "quarterdeck.search.row_payloads",
    "quarterdeck.recruiter.wire",
    "quarterdeck.scan.model",
)

with atheris.instrument_imports(include=list(_READERS)):  # pyright: ignore
    from checks.hostile import TARGETS

if __name__ == "__main__":
    target = TARGETS[sys.argv[1]]
    target.samples()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: target.attempt(target.input_of(data)))
    atheris.Fuzz()
