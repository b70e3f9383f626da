"""The code for the wire form is what protoc makes of `control.proto` today."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

PROTO = Path(str(files("quarterdeck.control.proto")))


@pytest.fixture(scope="module")
def made_anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proto")
    # In a process of its own: in ours, a second file with the names of the first would be refused.
    command = ["-m", "grpc_tools.protoc", "-I.", f"--python_out={folder}", f"--pyi_out={folder}", "control.proto"]
    subprocess.run([sys.executable, *command], cwd=PROTO, check=True)
    return folder


@pytest.mark.parametrize("name", ["control_pb2.py", "control_pb2.pyi"])
def test_the_generated_code_is_current(name: str, made_anew: Path) -> None:
    assert (PROTO / name).read_text() == (made_anew / name).read_text(), "run `make proto`"
