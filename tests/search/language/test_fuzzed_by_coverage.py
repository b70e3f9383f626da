"""A short run of the coverage-guided fuzzer; `make fuzz` has the long one."""

import subprocess
import sys


def test_a_coverage_guided_fuzzer_finds_no_text_that_the_parser_breaks_on() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "checks.fuzz_parser",
            "search",
            "-runs=4000",
            "-max_len=300",
            "-seed=1",
            "-artifact_prefix=/dev/null",
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "Done 4000 runs" in run.stderr
