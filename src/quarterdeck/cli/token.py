"""`quarterdeck token`: prints what a program of this user has to show to a crew of this user."""

from pathlib import Path

import typer

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.local_processes import RUN_DIR_VARIABLE, LocalProcesses
from quarterdeck.security.tokens import TOKEN_NAME, SharedToken
from quarterdeck.terminal.client import Access, Client


def run(url: str, data_dir: Path | None) -> int:
    typer.echo(_by_address(url) if data_dir is None else _in_folder(data_dir))
    return 0


def _by_address(url: str) -> str:
    authorization = Client(Access(url)).authorization()
    if authorization is None:
        trouble = LocalProcesses().trouble()
        if trouble:
            raise QuarterdeckError(
                ErrorCode.NOT_FOUND,
                f"the token for {url} is not found by the address",
                trouble,
                f"name the crew's folder with --data-dir. To fix it, remove that one, or name another in "
                f"{RUN_DIR_VARIABLE} for all processes and commands",
            )
        raise QuarterdeckError(
            ErrorCode.NOT_FOUND,
            f"there is no token for {url}",
            "no process of yours on this machine listens there, as far as is known",
            "start one with `quarterdeck up`, or name its folder with --data-dir; a token that you gave it is where "
            "you put it",
        )
    return authorization.removeprefix("Bearer ")


def _in_folder(data_dir: Path) -> str:
    file = data_dir / TOKEN_NAME
    if not file.exists():
        raise QuarterdeckError(
            ErrorCode.NOT_FOUND,
            f"there is no token in {data_dir}",
            "no crew and no process of this release has used it as its data folder, or it was given a token",
            "name the folder that `quarterdeck up` says its data is in",
        )
    return SharedToken.from_file(file).authorization.removeprefix("Bearer ")
