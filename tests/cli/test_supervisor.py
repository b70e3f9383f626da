"""Children are started, watched, started again and stopped. Here they are pretenders: processes that start fast."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.local_crew.child import Child, ChildFailedError, ChildState
from quarterdeck.local_crew.supervisor import ChildEvent, Supervisor
from tests.small_disk import a_disk, fill

PRETENDER = (sys.executable, "-S", "-E", str(Path(__file__).with_name("pretender.py")))
WAIT_S = 30.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A supervisor of pretenders, what it said, and a clock that goes when it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.events: list[ChildEvent] = []
        self.supervisor = Supervisor(
            self.events.append, log_folder=folder / "logs", program=PRETENDER, clock=self.clock, start_limit_s=60
        )

    def start(
        self, mode: str, name: str = "worker-1", stop_limit_s: float = 60.0, settings: Sequence[str] = ()
    ) -> Child:
        return self.supervisor.start(
            name, self.folder / name, ("--mode", mode), stop_limit_s=stop_limit_s, settings=settings
        )

    def up(self, mode: str = "good", name: str = "worker-1") -> Child:
        child = self.start(mode, name)
        assert self.supervisor.wait_up([child], lambda: False)
        return child

    def look_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < until, f"it did not come about; {self.events}"
            self.supervisor.look()
            time.sleep(0.005)

    def kill(self, child: Child) -> None:
        assert child.process is not None
        os.kill(child.pid, signal.SIGKILL)
        child.process.wait()

    @property
    def told(self) -> list[str]:
        return [f"{event.name} {event.text}" for event in self.events]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    with scene.supervisor:
        yield scene


def never() -> bool:
    return False


def test_a_child_is_up_once_it_has_announced_where_it_is(scene: Scene) -> None:
    child = scene.up()
    assert child.state is ChildState.UP
    assert child.addresses["http"] == "http://127.0.0.1:1"
    assert child.addresses["pid"] == child.pid
    assert scene.told == []


def test_what_an_earlier_process_announced_does_not_count(scene: Scene) -> None:
    (scene.folder / "worker-1").mkdir()
    (scene.folder / "worker-1" / "addresses.json").write_text('{"pid": 1, "http": "http://127.0.0.1:9"}')
    child = scene.start("silent")
    scene.supervisor.look()
    assert child.state is ChildState.STARTING


def test_a_child_that_refuses_to_start_is_an_error_with_its_own_words_and_code(scene: Scene) -> None:
    with pytest.raises(ChildFailedError) as caught:
        scene.up("refused", "coordinator")
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert caught.value.row.exit_code == 69
    log = scene.folder / "logs" / "coordinator.log"
    assert str(caught.value) == (
        f"coordinator did not start: the port is busy: somebody has it; take another; its log is {log}"
    )
    assert caught.value.lines == ()
    assert scene.told == []


def test_a_child_that_breaks_is_an_error_with_the_last_lines_it_wrote(scene: Scene) -> None:
    scene.folder.joinpath("logs").mkdir(exist_ok=True)
    (scene.folder / "logs" / "worker-1.log").write_text("of an earlier start\n")
    with pytest.raises(ChildFailedError, match="it ended with exit code 1") as caught:
        scene.up("broken")
    assert caught.value.lines == ("Traceback", "  somewhere", "ZeroDivisionError: division by zero")


def test_a_child_that_has_no_room_for_a_word_says_that_the_disk_is_full(tmp_path: Path) -> None:
    with a_disk("size=256k", tmp_path, in_sight=True) as disk:
        scene = Scene(disk)
        with scene.supervisor:
            fill(disk)
            with pytest.raises(ChildFailedError, match=r"wrote nothing: the disk is full; 0 B of 256.0 KiB") as caught:
                scene.up("refused")
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert "free space there" in caught.value.next_step


def test_a_child_that_never_announces_itself_is_killed_and_an_error(scene: Scene) -> None:
    child = scene.start("silent")
    scene.clock.now += 61
    with pytest.raises(ChildFailedError, match="did not say within 60 s where it is"):
        scene.supervisor.wait_up([child], never)
    assert child.exit_code == -signal.SIGKILL


def test_while_a_child_compiles_the_time_for_its_start_does_not_run(scene: Scene) -> None:
    child = scene.start("compiling")
    scene.look_until(lambda: bool(scene.told))
    for _ in range(3):
        scene.clock.now += 1000
        scene.supervisor.look()
    assert child.state is ChildState.STARTING
    (child.data_dir / "go on").touch()
    assert scene.supervisor.wait_up([child], never)
    assert scene.told == ["worker-1 compiles what it needs on this machine, which may take some minutes"]


def test_what_an_earlier_process_said_of_compiling_does_not_count(scene: Scene) -> None:
    (scene.folder / "worker-1").mkdir()
    (scene.folder / "worker-1" / "compiling.json").write_text(json.dumps({"pid": 1}))
    child = scene.start("silent")
    scene.clock.now += 61
    with pytest.raises(ChildFailedError, match="did not say within 60 s where it is"):
        scene.supervisor.wait_up([child], never)


def test_waiting_for_a_start_can_be_given_up(scene: Scene) -> None:
    child = scene.start("silent")
    assert not scene.supervisor.wait_up([child], lambda: True)
    assert child.exit_code is None


def test_a_child_that_dies_is_started_again_and_told_of(scene: Scene) -> None:
    child = scene.up()
    scene.supervisor.keep_alive = True
    first = child.pid
    scene.kill(child)
    scene.supervisor.look()
    assert child.state is ChildState.RESTING
    scene.supervisor.look()
    assert child.pid == first, "it rests first"
    scene.clock.now += 0.2
    scene.look_until(lambda: child.state is ChildState.UP)
    assert child.pid != first
    assert scene.told == [
        "worker-1 was ended by SIGKILL; next try in 0.2 s",
        f"worker-1 is started again (process {child.pid})",
        "worker-1 is up again",
    ]


def test_a_child_is_started_again_with_the_arguments_it_has_by_then(scene: Scene) -> None:
    child = scene.up()
    scene.supervisor.keep_alive = True
    child.arguments = ("--mode", "better")
    scene.kill(child)
    scene.supervisor.look()
    scene.clock.now += 1
    scene.look_until(lambda: child.state is ChildState.UP)
    assert "better" in str(child.addresses["arguments"])


def test_settings_reach_a_child_at_each_start_and_stand_where_nobody_else_can_read_them(scene: Scene) -> None:
    settings = ["s3.secret_access_key=hunter2", "database_url=postgresql://me:hunter2@db/ä"]
    child = scene.start("good", settings=settings)
    assert "hunter2" not in repr(child)
    assert scene.supervisor.wait_up([child], never)
    scene.supervisor.keep_alive = True
    for start in (1, 2):
        assert child.starts == start
        assert json.loads(str(child.addresses["settings"])) == settings
        process = Path(f"/proc/{child.pid}")
        assert b"hunter2" not in (process / "cmdline").read_bytes()
        assert b"hunter2" not in (process / "environ").read_bytes()
        scene.kill(child)
        scene.supervisor.look()
        scene.clock.now += 1
        scene.look_until(lambda: child.state is ChildState.UP)


def test_a_child_that_is_started_ahead_waits_for_its_settings_and_starts_again_with_others(scene: Scene) -> None:
    child = scene.supervisor.start_ahead("worker-1", scene.folder / "worker-1", ("--mode", "good"), stop_limit_s=60.0)
    scene.look_until((scene.folder / "worker-1" / "waits.json").exists)
    scene.clock.now += 3600  # waiting is no slow start
    scene.supervisor.look()
    assert child.state is ChildState.AHEAD
    later = ("--mode", "good", "--data-dir", str(scene.folder / "worker-1"))
    scene.supervisor.go_on(child, ["a=1", "join=here"], arguments=later, settings=["a=1"])
    assert scene.supervisor.wait_up([child], never)
    assert child.addresses["settings"] == '["a=1", "join=here"]'
    scene.supervisor.keep_alive = True
    scene.kill(child)
    scene.look_until(lambda: child.state is ChildState.RESTING)
    scene.clock.now += 60
    scene.look_until(lambda: child.state is ChildState.UP)
    assert child.addresses["settings"] == '["a=1"]'
    assert "--handed-when" not in str(child.addresses["arguments"])


def test_a_child_that_died_while_it_waited_for_its_settings_is_told_of_when_it_should_go_on(scene: Scene) -> None:
    child = scene.supervisor.start_ahead("worker-1", scene.folder / "worker-1", ("--mode", "good"), stop_limit_s=60.0)
    scene.kill(child)
    scene.supervisor.look()
    scene.supervisor.go_on(child, ["a=1"], arguments=(), settings=())
    with pytest.raises(ChildFailedError, match="was ended by SIGKILL"):
        scene.supervisor.wait_up([child], never)


def test_children_that_wait_for_their_settings_end_with_whoever_started_them(scene: Scene) -> None:
    child = scene.supervisor.start_ahead("worker-1", scene.folder / "worker-1", ("--mode", "good"), stop_limit_s=60.0)
    scene.look_until((scene.folder / "worker-1" / "waits.json").exists)
    assert scene.supervisor.stop([child], never) == []
    assert child.exit_code is not None


def test_more_settings_than_a_child_may_be_handed_are_told_and_nothing_is_started(scene: Scene) -> None:
    with pytest.raises(QuarterdeckError, match=r"together they have 1,048,\d+ bytes, and 1,048,576 are allowed"):
        scene.start("good", settings=["x=" + "y" * (1024 * 1024 - 5)])
    assert scene.supervisor.children["worker-1"].process is None


def test_a_child_that_keeps_dying_is_started_later_each_time_and_at_once_after_a_steady_while(scene: Scene) -> None:
    child = scene.up()
    scene.supervisor.keep_alive = True
    rests: list[float] = []
    for lived_s in (1.0, 1.0, 1.0, 31.0):
        scene.clock.now += lived_s
        scene.kill(child)
        scene.supervisor.look()
        rests.append(child.start_again_at - scene.clock.now)
        scene.clock.now = child.start_again_at
        scene.look_until(lambda: child.state is ChildState.UP)
    assert rests == pytest.approx([0.2, 0.4, 0.8, 0.2])


def test_a_child_that_does_not_start_again_is_told_of_with_its_words_and_tried_later(scene: Scene) -> None:
    child = scene.up()
    scene.supervisor.keep_alive = True
    child.arguments = ("--mode", "broken")
    scene.kill(child)
    scene.supervisor.look()
    scene.clock.now += 1
    scene.look_until(lambda: child.starts == 2 and child.state is ChildState.RESTING)
    event = scene.events[-1]
    assert event.text.startswith("did not start: it ended with exit code 1; next try in 0.4 s; its log is ")
    assert event.lines[-1] == "ZeroDivisionError: division by zero"


def test_a_child_that_hangs_while_it_starts_again_is_killed_and_tried_again(scene: Scene) -> None:
    child = scene.up()
    scene.supervisor.keep_alive = True
    child.arguments = ("--mode", "silent")
    scene.kill(child)
    scene.supervisor.look()
    scene.clock.now += 1
    scene.supervisor.look()
    assert child.starts == 2
    scene.clock.now += 61
    scene.supervisor.look()
    assert scene.told[-1] == "worker-1 did not say within 60 s where it is, and was killed"
    scene.supervisor.look()
    assert child.state is ChildState.RESTING


def test_children_that_are_told_to_stop_end_and_are_not_told_of(scene: Scene) -> None:
    children = [scene.up(name="worker-1"), scene.up(name="worker-2")]
    scene.supervisor.keep_alive = True
    assert scene.supervisor.stop(children, never) == []
    assert [child.exit_code for child in children] == [0, 0]
    scene.supervisor.look()
    assert scene.told == []
    assert all(child.state is ChildState.ENDED for child in children)


def test_a_child_that_does_not_stop_well_is_named(scene: Scene) -> None:
    child = scene.up("unclean")
    assert scene.supervisor.stop([child], never) == [child]
    assert child.how_it_ended() == "ended with exit code 124"


def test_a_child_that_died_before_the_stop_is_not_blamed_for_it(scene: Scene) -> None:
    child = scene.up()
    scene.supervisor.keep_alive = True
    scene.kill(child)
    scene.supervisor.look()
    assert scene.supervisor.stop([child], never) == []


def test_a_child_that_takes_too_long_to_stop_is_killed(scene: Scene) -> None:
    child = scene.start("stubborn", stop_limit_s=5)
    scene.supervisor.wait_up([child], never)

    def time_passes() -> bool:
        scene.clock.now += 3
        return False

    assert scene.supervisor.stop([child], time_passes) == [child]
    assert child.exit_code == -signal.SIGKILL
    assert scene.told == ["worker-1 did not stop within 5 s and is killed"]


def test_in_a_hurry_whoever_does_not_stop_is_killed(scene: Scene) -> None:
    child = scene.up("stubborn")
    scene.supervisor.stop([child], lambda: True)
    assert child.exit_code == -signal.SIGKILL


def test_leaving_kills_whoever_still_runs(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.supervisor:
        child = scene.up("stubborn")
    assert child.exit_code == -signal.SIGKILL


def test_children_end_by_themselves_when_whoever_started_them_was_killed(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from quarterdeck.local_crew.supervisor import Supervisor
folder = Path({str(tmp_path)!r})
with Supervisor(print, log_folder=folder / "logs", program={PRETENDER!r}) as supervisor:
    child = supervisor.start("worker-1", folder / "worker-1", ("--mode", "good"), stop_limit_s=1)
    supervisor.wait_up([child], lambda: False)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=WAIT_S).returncode == -signal.SIGKILL
    until = time.monotonic() + WAIT_S
    while not (tmp_path / "worker-1" / "cut loose").exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_child_is_in_a_session_of_its_own_so_that_an_interrupt_from_the_keyboard_does_not_reach_it(
    scene: Scene,
) -> None:
    child = scene.up()
    assert os.getsid(child.pid) == child.pid


def test_a_large_log_is_put_aside_when_its_process_is_started(scene: Scene) -> None:
    log = scene.folder / "logs" / "worker-1.log"
    with log.open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(ChildFailedError):
        scene.up("broken")
    assert log.with_name("worker-1.log.1").stat().st_size == 17 * 1024 * 1024
    assert log.read_text().startswith("Traceback")
