"""Rules for code that runs on the event loop: bounded queues, bounded waits, owned tasks, nothing that blocks.

A rule finds what the syntax of one file shows; it follows no value from file to file.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.source import Source

PACKAGES = (
    *("http", "stores", "control", "crew"),
    *("metrics", "recruiter", "scan", "search"),
    *("coordinator", "worker"),
)
"""The packages under the root whose code runs on the event loop of a real process, except for their commands."""

Offence = tuple[ast.expr, str]
"""A place, and what stands there."""


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    find: Callable[[Source], Iterator[Offence]]
    why: str
    instead: str


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    line: int
    column: int
    rule: Rule
    what: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}"
        return f"{place}: {self.rule.name}: {self.what}: {self.rule.why}; {self.rule.instead}"


BOUNDED_QUEUES = frozenset(
    f"{module}.{name}"
    for module in ("asyncio", "asyncio.queues", "queue", "multiprocessing")
    for name in ("Queue", "LifoQueue", "PriorityQueue", "JoinableQueue")
)
"""Queue classes that take a bound; without one they grow."""

BOUNDLESS_QUEUES = frozenset({"queue.SimpleQueue", "multiprocessing.SimpleQueue"})


def unbounded_queues(source: Source) -> Iterator[Offence]:
    for call in source.calls():
        name = source.dotted(call.func)
        if name in BOUNDLESS_QUEUES or (name in BOUNDED_QUEUES and _has_no_bound(call)):
            yield call, f"{name} without a bound"
        for keyword in call.keywords:
            made = source.dotted(keyword.value)
            if keyword.arg == "default_factory" and made in BOUNDED_QUEUES | BOUNDLESS_QUEUES:
                yield keyword.value, f"{made} made without a bound"


def _has_no_bound(call: ast.Call) -> bool:
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords):
        return False  # the bound may be in what is unpacked
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "maxsize")]
    match given:
        case []:
            return True
        case [ast.Constant(value=int(size)), *_]:
            return size <= 0
        case [ast.UnaryOp(op=ast.USub()), *_]:
            return True
        case _:
            return False


TIMEOUTS = frozenset(
    {"asyncio.timeout", "asyncio.timeout_at", "asyncio.timeouts.timeout", "asyncio.timeouts.timeout_at"}
)
WAIT_FOR = frozenset({"asyncio.wait_for", "asyncio.tasks.wait_for"})
QUEUE_WAITS = {"put": 1, "get": 0, "join": 0}
"""What waits on a queue, with its number of arguments: that tells `queue.get()` from `http.get(url)`."""

CANCELLED_BY = re.compile(r"#.*\bcancelled by: *\S")


def unbounded_waits(source: Source) -> Iterator[Offence]:
    for call in source.calls():
        wait = _wait_on_queue(source, call)
        if wait and not _is_timed(source, call) and not any(map(CANCELLED_BY.search, source.comments_on(call))):
            yield call, f"`{wait}` may wait for ever"


def _wait_on_queue(source: Source, call: ast.Call) -> str:
    """The text of a wait, when the awaited call is one on a queue, directly or in a wait_for without a limit."""
    if not source.is_awaited(call):
        return ""
    if source.dotted(call.func) in WAIT_FOR and _is_queue_operation(call.args[:1]) and _has_no_limit(call, position=1):
        return f"await {ast.unparse(call)}"
    return f"await {ast.unparse(call)}" if _is_queue_operation([call]) else ""


def _is_queue_operation(nodes: Sequence[ast.expr]) -> bool:
    match nodes:
        case [ast.Call(func=ast.Attribute(attr=operation), args=arguments, keywords=keywords)]:
            return QUEUE_WAITS.get(operation) == len(arguments) + len(keywords)
        case _:
            return False


def _is_timed(source: Source, node: ast.AST) -> bool:
    for above in source.ancestors(node):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(above, ast.AsyncWith) and any(_is_time_limit(source, item.context_expr) for item in above.items):
            return True
    return False


def _is_time_limit(source: Source, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and source.dotted(node.func) in TIMEOUTS and not _has_no_limit(node, position=0)


def _has_no_limit(call: ast.Call, position: int) -> bool:
    """Whether the time limit is None, or not given."""
    given = [*call.args[position : position + 1], *(k.value for k in call.keywords)]
    return not given or (isinstance(given[0], ast.Constant) and given[0].value is None)


SPAWNERS = frozenset({"asyncio.create_task", "asyncio.ensure_future", "asyncio.tasks.create_task"})
LOOP_GETTERS = frozenset({"asyncio.get_running_loop", "asyncio.get_event_loop", "asyncio.new_event_loop"})
LOOP_CLASSES = LOOP_GETTERS | {"asyncio.AbstractEventLoop", "asyncio.BaseEventLoop"}


def unowned_tasks(source: Source) -> Iterator[Offence]:
    loops = source.variables_of(LOOP_CLASSES)
    for call in source.calls():
        if _spawns(source, call, loops) and _is_dropped(source, call):
            yield call, f"the task of `{ast.unparse(call.func)}` is dropped"


def _spawns(source: Source, call: ast.Call, loops: frozenset[str]) -> bool:
    if source.dotted(call.func) in SPAWNERS:
        return True
    match call.func:
        case ast.Attribute(attr="create_task", value=ast.Call(func=getter)):
            return source.dotted(getter) in LOOP_GETTERS
        case ast.Attribute(attr="create_task", value=receiver):
            name = source.dotted(receiver)
            return name in loops or name.rpartition(".")[2].strip("_") in {"loop", "event_loop"}
        case _:
            return False


def _is_dropped(source: Source, node: ast.expr) -> bool:
    match source.parent(node):
        case ast.Expr() | ast.Attribute():  # of `create_task(…).add_done_callback(…)` only the callback is left
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Name) and target.id == "_" for target in targets)
        case (ast.BoolOp() | ast.IfExp()) as outer:
            return _is_dropped(source, outer)
        case _:
            return False


BLOCKING = frozenset(
    {
        "duckdb.connect",
        "input",
        "io.open",
        "open",
        "os.popen",
        "os.system",
        "os.wait",
        "os.waitpid",
        "socket.create_connection",
        "socket.getaddrinfo",
        "sqlite3.connect",
        "subprocess.Popen",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.check_output",
        "subprocess.getoutput",
        "subprocess.run",
    }
)
BLOCKING_MODULES = ("requests.", "urllib.request.")
BLOCKING_METHODS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})


def blocking_calls(source: Source) -> Iterator[Offence]:
    for call in source.calls():
        name = source.dotted(call.func)
        if name == "time.sleep":  # a plain function here is one call away from a coroutine
            yield call, "time.sleep stops the event loop"
        elif source.is_in_coroutine(call) and not source.is_awaited(call) and _blocks(name, call):
            yield call, f"`{ast.unparse(call.func)}` blocks inside a coroutine"


def _blocks(name: str, call: ast.Call) -> bool:
    is_file_method = isinstance(call.func, ast.Attribute) and call.func.attr in BLOCKING_METHODS
    return name in BLOCKING or name.startswith(BLOCKING_MODULES) or is_file_method


LOCKS = frozenset(
    f"threading.{name}" for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Barrier")
)


def blocking_locks(source: Source) -> Iterator[Offence]:
    locks = source.variables_of(LOCKS)
    for node in ast.walk(source.tree):
        if not source.is_in_coroutine(node):
            continue
        match node:
            case ast.With(items=items):
                for item in items:
                    if _is_lock(source, item.context_expr, locks):
                        yield item.context_expr, f"`with {ast.unparse(item.context_expr)}` inside a coroutine"
            case ast.Call(func=ast.Attribute(attr="acquire", value=lock)) if _is_lock(source, lock, locks):
                if not _tries_only(node):
                    yield node, f"`{ast.unparse(node.func)}` inside a coroutine"
            case _:
                pass


def _is_lock(source: Source, node: ast.expr, locks: frozenset[str]) -> bool:
    return source.dotted(node) in locks or (isinstance(node, ast.Call) and source.dotted(node.func) in LOCKS)


def _tries_only(call: ast.Call) -> bool:
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "blocking")]
    return any(isinstance(value, ast.Constant) and value.value is False for value in given)


RULES = (
    Rule(
        "unbounded-queue",
        unbounded_queues,
        "a slow reader turns into memory without end",
        "give it a maxsize, and decide what happens when it is full",
    ),
    Rule(
        "unbounded-wait",
        unbounded_waits,
        "a peer that never answers holds this task for good",
        "put it under asyncio.timeout(), or name who cancels it: `# cancelled by: <who>`",
    ),
    Rule(
        "unowned-task",
        unowned_tasks,
        "its errors are lost, and it may be collected while it runs",
        "use a TaskGroup, or keep the task and await it",
    ),
    Rule(
        "blocking-call",
        blocking_calls,
        "every other task, heartbeats among them, stands still meanwhile",
        "use the asyncio counterpart, or asyncio.to_thread()",
    ),
    Rule(
        "blocking-lock",
        blocking_locks,
        "a thread that holds the lock stops the event loop",
        "use asyncio.Lock, or take the lock in asyncio.to_thread()",
    ),
)


def check_text(text: str, path: Path, rules: Sequence[Rule] = RULES) -> list[Finding]:
    source = Source(text, path)
    findings = [
        Finding(path, node.lineno, node.col_offset + 1, rule, what)
        for rule in rules
        for node, what in rule.find(source)
    ]
    return sorted(findings, key=lambda finding: (finding.line, finding.column, finding.rule.name))


def files_below(root: Path) -> list[Path]:
    return [
        path for package in PACKAGES for path in sorted((root / package).rglob("*.py")) if "commands" not in path.parts
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m checks.async_rules",
        description=f"Check the async rules in {', '.join(PACKAGES)} below each root. Exit status 1: findings.",
        epilog="rules:\n" + "\n".join(f"  {rule.name:16} {rule.why};\n{'':19}{rule.instead}" for rule in RULES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("roots", nargs="+", type=Path, metavar="ROOT", help="the package folder, as src/quarterdeck")
    roots: list[Path] = parser.parse_args(arguments).roots
    for root in roots:
        if not root.is_dir():
            parser.error(f"{root} is not a folder")
    files = [path for root in roots for path in files_below(root)]
    findings = [finding for path in files for finding in check_text(path.read_text(encoding="utf-8"), path)]
    for finding in findings:
        print(finding)
    print(f"async rules: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
