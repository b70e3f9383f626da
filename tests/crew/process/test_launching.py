"""What a process prepares before it loads its libraries."""

import subprocess
import sys
from pathlib import Path

import pytest


def told(code: str) -> str:
    """By a process that has prepared to load. It ends as ours do: Arrow's threads abort one that is torn down."""
    prepared = f"""
from quarterdeck.crew.process.launching import prepare_to_load
prepare_to_load()
{code}
from quarterdeck.crew.process.lifecycle import leave
leave(0)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", prepared], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_arrow_reads_parquet_without_its_own_ways_to_buckets() -> None:
    code = """
        import io, sys
        import pyarrow.parquet
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2]}), buffer)
        print(pyarrow.parquet.read_table(buffer).num_rows, sys.modules["pyarrow._s3fs"])
    """
    assert told("if True:" + code) == "2 None"


def test_an_endpoint_works_without_the_first_version_of_pydantic() -> None:
    code = """
        import sys
        from fastapi import FastAPI
        from pydantic import BaseModel

        class Told(BaseModel):
            words: list[str]

        app = FastAPI()
        app.get("/")(lambda: None)
        app.post("/told", response_model=list[Told])(lambda: [])
        print("/told" in app.openapi()["paths"], sys.modules["pydantic.v1"])
    """
    assert told("if True:" + code) == "True None"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system tells nobody of his threads")
def test_numpy_starts_no_threads() -> None:
    assert told("import os, numpy\nprint(len(os.listdir('/proc/self/task')))") == "1"
