"""The event loop of the simulator: virtual time, seeded order, processes that can be paused and killed.

Rules:
- Time moves only when nothing is ready, and then straight to the next timer.
- Of all that is ready the generator picks what runs next. asyncio's first-in-first-out order of `call_soon` is not
  kept: whoever needs an order, such as a network link, keeps its own queue.
- A callback runs in the process of its context. `context_of(None)` is for the simulator's own callbacks: a message
  scheduled in the context of its sender would die with the sender, and what it starts would be of the sender.
- A task of a dead process is never done. Who may outlive a process waits with `asyncio.wait(..., timeout=)`:
  `wait_for` waits for the end of what it cancels, and a dead task has none.
- The cyclic garbage collector is off during a run, because it would end objects at steps that depend on the past of
  the Python process. Tasks hash by their number, because `TaskGroup` cancels its tasks in the order of a set. Plain
  futures and coroutines hash by address: do not iterate over sets of them, nor give coroutines to `as_completed`.

It must not know networks, disks or what the processes do.
"""

import asyncio
import gc
import heapq
import math
import random
import sys
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, copy_context
from inspect import iscoroutine
from typing import Any, Final, Never, TypeVar, TypeVarTuple, Unpack, cast

# What asyncio offers to other event loops for this purpose ("Extending" in its documentation).
from asyncio import _get_running_loop as get_loop_in_thread, _set_running_loop as set_loop_in_thread  # isort: skip
from asyncio.tasks import _unregister_task as unregister_task  # isort: skip

from quarterdeck.simulation.failures import (
    NotSimulated,
    SimulationDeadlock,
    SimulationFailure,
    SimulationOverrun,
    Unhandled,
    UnhandledInSimulation,
)
from quarterdeck.simulation.handles import SimulatedHandle, SimulatedTask, is_of_interest, is_unseen
from quarterdeck.simulation.process import Process, ProcessState, bury, collections, current_process, silence, where

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_Tasks = list[asyncio.Task[Any]]

_LISTED_TASKS: Final = 20


class SimulatedLoop(asyncio.AbstractEventLoop):
    """One loop for all simulated processes of one run."""

    def __init__(self, chance: random.Random, *, time_limit_s: float = 86_400.0, step_limit: int = 10_000_000) -> None:
        self.errors: list[Unhandled] = []
        self.after_callback: Callable[[], None] | None = None
        """Called after each callback; what it raises ends the run unchanged."""
        self.steps = 0
        self._chance = chance
        self._time_limit_s = time_limit_s
        self._step_limit = step_limit
        self._now_s = 0.0
        self._ready: list[SimulatedHandle] = []
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        self._timers_set = 0
        self._prune_timers_at = 64
        self._held: dict[Process, list[SimulatedHandle]] = {}
        self._dead_handles: list[SimulatedHandle] = []
        self._dead_tasks: _Tasks = []
        self._dead_generators: list[AsyncGenerator[Any, Any] | None] = []
        # Weak, so that a failed task that nobody holds complains at once. Pruned when it has doubled.
        self._tasks: list[tuple[weakref.ref[asyncio.Task[Any]], Process | None]] = []
        self._tasks_created = 0
        self._prune_tasks_at = 64
        self._pinned: _Tasks = []
        self._generators: dict[int, tuple[weakref.ref[AsyncGenerator[Any, Any]], Process | None]] = {}
        self._born_at = collections()
        self._running = False
        self._ending = False
        self._closed = False

    # ---- time and callbacks

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = SimulatedHandle(self._now_s, callback, args, context)
        if self._ending:
            self._refuse_when_closed()
        else:
            self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if math.isnan(when):
            raise ValueError("the time of a timer is not a number")
        handle = SimulatedHandle(when, callback, args, context)
        if self._ending:
            self._refuse_when_closed()
            return handle
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, handle))
        if len(self._timers) > self._prune_timers_at:  # a cancelled timer stays until it is due, or until here
            self._timers = [timer for timer in self._timers if timer[2].callback is not None]
            heapq.heapify(self._timers)
            self._prune_timers_at = 2 * len(self._timers) + 64
        return handle

    # ---- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[_T]:
        if context is None:
            context = copy_context()
        self._tasks_created += 1
        name = f"task-{self._tasks_created}" if name is None else name
        # asyncio registers a task by its hash while it is initialized: it needs its number before.
        task = cast("SimulatedTask[_T]", SimulatedTask.__new__(SimulatedTask))
        task.number = self._tasks_created
        task.__init__(cast("Coroutine[Any, Any, _T]", coro), loop=self, name=name, context=context, **options)
        process = context.get(current_process)
        if self._ending:
            unregister_task(task)
            coro.close()
        elif process is not None and process.state is ProcessState.DEAD:
            self._entomb(task)
        else:
            self._tasks.append((weakref.ref(task), process))
            if len(self._tasks) > self._prune_tasks_at:
                self._tasks = [entry for entry in self._tasks if is_of_interest(entry[0]())]
                self._prune_tasks_at = 2 * len(self._tasks) + 64
        return task

    def get_task_factory(self) -> None:
        return None

    # ---- processes

    def context_of(self, process: Process | None) -> Context:
        """A fresh context, as empty as that of a new process, whose code belongs to this process."""
        context = Context()
        context.run(current_process.set, process)
        return context

    def spawn(
        self, process: Process | None, coro: Coroutine[Any, Any, _T], *, name: str | None = None
    ) -> asyncio.Task[_T]:
        """Run a coroutine as part of a process, whoever calls."""
        if process is not None and process.state is ProcessState.DEAD:
            coro.close()
            raise RuntimeError(f"process {process.name} is dead; a restart is a new Process")
        return self.create_task(coro, name=name, context=self.context_of(process))

    def pause(self, process: Process) -> None:
        """As SIGSTOP. A callback of this process that runs right now still comes to its end."""
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.PAUSED

    def resume(self, process: Process) -> None:
        """As SIGCONT. What came due during the pause is ready now."""
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            self._ready.extend(self._held.pop(process, ()))

    def kill(self, process: Process) -> None:
        """As SIGKILL. A callback of this process that runs right now still comes to its end."""
        if process.state is not ProcessState.DEAD:
            process.state = ProcessState.DEAD
            self._dead_handles.extend(self._held.pop(process, ()))
            for task in self._tasks_of(process):
                self._entomb(task)
            self._tasks = [entry for entry in self._tasks if entry[1] is not process]
            self._dead_generators.extend(
                generator() for generator, owner in self._generators.values() if owner is process
            )

    def _entomb(self, task: asyncio.Task[Any]) -> None:
        """Held, it cannot complain of being destroyed; not registered, nobody waits for its end."""
        unregister_task(task)
        self._dead_tasks.append(task)

    def _tasks_of(self, process: Process | None) -> _Tasks:
        return [task for ref, owner in self._tasks if owner is process and (task := ref()) is not None]

    # ---- the run

    def run_until_complete(self, future: Generator[Any, None, _T] | Awaitable[_T]) -> _T:
        if self._running or get_loop_in_thread() is not None:
            raise RuntimeError("a loop is already running in this thread")
        self._refuse_when_closed()
        main: asyncio.Future[_T] = asyncio.ensure_future(cast("Awaitable[_T]", future), loop=self)
        with self._in_charge():
            if not main.done():
                self._run(main)
            if main.cancelled() or main.exception() is not None:
                return main.result()
            self._raise_unhandled()
            return main.result()

    @contextmanager
    def _in_charge(self) -> Generator[None]:
        """This thread's asyncio and Python's finalizers answer to this loop."""
        collecting, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
        gc.disable()
        sys.set_asyncgen_hooks(firstiter=self._generator_began, finalizer=self._generator_dropped)
        set_loop_in_thread(self)
        self._running = True
        self._pinned.clear()
        try:
            yield
        finally:
            # The collector, back on, must not end tasks that only their own cycle holds.
            self._pinned = [task for ref, _ in self._tasks if (task := ref()) is not None and not task.done()]
            self._running = False
            set_loop_in_thread(None)
            sys.set_asyncgen_hooks(*hooks)
            if collecting:
                gc.enable()

    def _run(self, main: asyncio.Future[Any]) -> None:
        # The hot loop: every name is local, and nothing is drawn when there is no choice.
        ready, errors, step_limit = self._ready, self.errors, self._step_limit
        draw, is_done = self._chance.random, main.done
        running, process_var = ProcessState.RUNNING, current_process
        while True:
            if not ready:
                self._advance()
            handle = ready.pop()
            others = len(ready)
            if others:
                choice = int(draw() * (others + 1))
                if choice < others:
                    handle, ready[choice] = ready[choice], handle
            callback = handle.callback
            if callback is None:
                continue
            context = handle.context
            process = context.get(process_var)
            if process is not None and process.state is not running:
                self._withhold(handle, process)
                continue
            if self.steps >= step_limit:
                ready.append(handle)
                self._give_up(SimulationOverrun, f"{step_limit} steps are over")
            self.steps += 1
            try:
                context.run(callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 (whatever it is, it ends the run just below)
                self._record(process, f"exception in callback {callback!r}", error)
            del handle, callback, context  # the last hold on a task that failed unseen: its complaint comes now
            if errors:
                raise UnhandledInSimulation(errors)
            if self.after_callback is not None:
                self.after_callback()
            if is_done():
                return

    def _withhold(self, handle: SimulatedHandle, process: Process) -> None:
        if process.state is ProcessState.DEAD:
            self._dead_handles.append(handle)
        else:
            self._held.setdefault(process, []).append(handle)

    def _advance(self) -> None:
        """Move time to the next timer; all timers due then become ready together."""
        timers, ready = self._timers, self._ready
        while timers and (not ready or timers[0][0] <= self._now_s):
            due_s, number, handle = heapq.heappop(timers)
            if handle.callback is None:
                continue
            process = handle.context.get(current_process)
            if process is not None and process.state is ProcessState.DEAD:
                self._dead_handles.append(handle)  # time does not move for the dead
                continue
            if due_s > self._now_s:
                if due_s > self._time_limit_s or due_s == math.inf:
                    heapq.heappush(timers, (due_s, number, handle))
                    self._give_up(
                        SimulationOverrun,
                        f"the next timer is due at {due_s:g} s, the limit is {self._time_limit_s:g} s",
                    )
                self._now_s = due_s
            ready.append(handle)
        if not ready:
            self._give_up(SimulationDeadlock, "nothing is ready and no timer is set")

    def _give_up(self, failure: type[SimulationFailure], reason: str) -> Never:
        waiting = [(task, process) for ref, process in self._tasks if (task := ref()) is not None and not task.done()]
        lines = [f"at {self._now_s:g} s, after {self.steps} steps: {reason}; {len(waiting)} tasks wait"]
        lines.extend(
            f"  {task.get_name()} ({_name_and_state(process)}): {where(task.get_coro())}"
            for task, process in waiting[:_LISTED_TASKS]
        )
        if len(waiting) > _LISTED_TASKS:
            lines.append(f"  and {len(waiting) - _LISTED_TASKS} more")
        story = failure("\n".join(lines))
        self._raise_unhandled(story)  # a task that failed unseen is the likelier reason
        raise story

    # ---- errors

    def _record(self, process: Process | None, message: str, error: BaseException | None) -> None:
        if process is None or process.state is not ProcessState.DEAD:
            self.errors.append(Unhandled(process.name if process is not None else None, message, error))

    def _raise_unhandled(self, story: SimulationFailure | None = None) -> None:
        for ref, process in self._tasks:
            task = ref()
            if task is not None and task.done() and is_unseen(task):
                self._record(process, f"nobody looked at the exception of task {task.get_name()}", task.exception())
        if self.errors:
            failure = UnhandledInSimulation(self.errors)
            if story is not None:
                failure.add_note(str(story))
            raise failure

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What asyncio only logs ends the run. Outside a run it would depend on the garbage collector: ignored."""
        if not self._running:
            return
        culprit = context.get("task") or context.get("future") or self
        process = next((owner for ref, owner in self._tasks if ref() is culprit), current_process.get())
        self._record(process, f"{context.get('message')} ({culprit!r})", context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_exception_handler(self) -> None:
        return None

    # ---- asynchronous generators

    def _generator_began(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = (weakref.ref(generator), current_process.get())

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Let it clean up as part of its process. Python frees it without running its code when nothing is done."""
        _, process = self._generators.pop(id(generator), (None, None))
        if self._running and (process is None or process.state is not ProcessState.DEAD):
            self.spawn(process, generator.aclose(), name="close a generator")

    async def shutdown_asyncgens(self) -> None:
        for ref, process in list(self._generators.values()):
            generator = ref()
            if generator is not None and (process is None or process.state is not ProcessState.DEAD):
                await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none. `asyncio.Runner` asks for it at its end."""

    # ---- state and end

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        if enabled:
            raise NotSimulated("set_debug")

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def _refuse_when_closed(self) -> None:
        """While the dead are buried their calls come to nothing; afterwards a call is a mistake of the living."""
        if self._closed:
            raise RuntimeError("this simulated loop is closed")

    def close(self) -> None:
        """Dispose of the dead, and of all who still wait, without a sound and without a step."""
        if self._running:
            raise RuntimeError("cannot close a running loop")
        if self._ending:
            return
        self._ending = True
        tasks = [task for ref, _ in self._tasks if (task := ref()) is not None]
        tasks.extend(self._dead_tasks)
        handles = [*self._ready, *(timer[2] for timer in self._timers)]
        handles.extend(handle for held in self._held.values() for handle in held)
        handles.extend(self._dead_handles)
        coroutines: list[Any] = [argument for handle in handles for argument in handle.args if iscoroutine(argument)]
        for task in tasks:
            unregister_task(task)
            coroutines.append(task.get_coro())
        del tasks, handles
        loop_outside = get_loop_in_thread()
        set_loop_in_thread(self)
        try:
            with silence():
                for mortal in (self._ready, self._timers, self._held, self._tasks, self._pinned):
                    mortal.clear()
                for dead in (self._dead_handles, self._dead_tasks, self._dead_generators):
                    dead.clear()
                bury(coroutines, self._born_at)
        finally:
            set_loop_in_thread(loop_outside)
            self._closed = True


def _name_and_state(process: Process | None) -> str:
    if process is None:
        return "simulator"
    return process.name if process.state is ProcessState.RUNNING else f"{process.name}, {process.state}"


def _refusal(name: str) -> Callable[..., Never]:
    def refuse(*_args: Any, **_options: Any) -> Never:
        raise NotSimulated(name)

    return refuse


# Whatever asyncio offers and this loop does not have, in this version of Python and the next ones.
for _name in vars(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(SimulatedLoop):
        setattr(SimulatedLoop, _name, _refusal(_name))
