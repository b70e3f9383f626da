"""Runs a Postgres server in a temporary folder until its standard input ends, so that it outlives no test process.

It prints the folder of the server's socket; or a line that begins with `cannot` and says why there is no server. The
server's programs are those of the package pgserver, which is not imported: as root it adds a user to the machine and
changes the permissions of all folders above it. A server refuses to run as root, so there it runs as `nobody`.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # what is tested is what the server says, not what a power loss leaves
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "deadlock_timeout": "20ms",
    "shared_buffers": "16MB",
    "max_connections": "60",
}
_ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"
"""Only the user `guarded` needs a password."""


def programs() -> Path:
    package = importlib.util.find_spec("pgserver")
    if package is None or package.origin is None:
        raise FileNotFoundError("the package pgserver is not installed")
    return Path(package.origin).parent / "pginstall" / "bin"


def serve(folder: Path) -> None:
    is_root = os.geteuid() == 0
    if is_root:
        shutil.chown(folder, "nobody")
    data = folder / "data"

    def call(program: str, *arguments: str) -> None:
        with (folder / "output").open("w+") as output:
            done = subprocess.run(
                [programs() / program, "-D", data, *arguments],
                user="nobody" if is_root else None,
                extra_groups=[] if is_root else None,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            if done.returncode != 0:
                raise OSError(f"{program}: {' '.join(output.read().split())}")

    call("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "--encoding=UTF8", "--locale=C")
    (data / "pg_hba.conf").write_text(_ACCESS)
    settings = {**_SETTINGS, "unix_socket_directories": str(folder)}
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    call("pg_ctl", "-w", "-l", str(data / "log"), "start")
    try:
        print(folder, flush=True)
        sys.stdin.read()
    finally:
        call("pg_ctl", "-w", "-m", "immediate", "stop")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="qd-postgres-"))
    try:
        serve(folder)
    except (OSError, LookupError) as error:
        print("cannot", error, flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
