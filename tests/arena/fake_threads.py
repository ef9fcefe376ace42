"""Threads of which one runs at a time, in an order that a seed decides.

A stand-in for the parts of `threading` that the station and the arena use. Every call
may hand over to any other task, and a task may be starved for long, so that what can go
wrong does go wrong within a few seeds, and does so again with the same seed.
"""

import threading
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

_KEEP = 0.9  # how often the task of the highest priority goes on
_CHANGE = 0.1  # how often the running task gets another priority


class DeadlockError(AssertionError):
    """Every task waits."""


class _Ended(BaseException):
    """Thrown into what still waits when the main task is done."""


class Task:
    """One thread that runs when it is its turn."""

    def __init__(self, name: str, priority: float) -> None:
        self.name = name
        self.priority = priority
        self.turn = threading.Semaphore(0)
        self.can_run: Callable[[], bool] = lambda: True
        self.is_done = False


class Scheduler:
    """Decides which task runs.

    Attributes:
        threading: What stands in for the module of this name.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._local = threading.local()
        self._ending: BaseException | None = None
        self.threading = SimpleNamespace(
            Condition=lambda: Condition(self),
            Thread=lambda **given: Thread(self, **given),
            current_thread=lambda: self._current,
        )

    @property
    def _current(self) -> Task:
        task: Task = self._local.task
        return task

    def run(self, main: Callable[[], None]) -> None:
        """Run `main` and what it spawns, until `main` returns.

        Raises:
            DeadlockError: Every task waited.
            BaseException: What one of the tasks failed with.
        """
        self._local.task = task = Task("main", self._random.random())
        self._tasks.append(task)
        try:
            main()
        finally:
            self._end(_Ended())
            for thread in self._threads:
                thread.join()
        assert self._ending is not None
        if not isinstance(self._ending, _Ended):
            raise self._ending

    def _end(self, error: BaseException) -> None:
        """Let every task end; the first error is the one that counts."""
        self._ending = self._ending or error
        for other in self._tasks:
            other.turn.release()

    def spawn(self, name: str, function: Callable[[], None]) -> Task:
        """Begin a task; it first runs when it is its turn."""
        task = Task(name, self._random.random())
        self._tasks.append(task)

        def body() -> None:
            self._local.task = task
            try:
                self._await_turn(task)
                function()
            except BaseException as error:  # noqa: BLE001  # `run` raises it
                self._end(error)
                return
            finally:
                task.is_done = True
            self._hand_over(task)

        thread = threading.Thread(target=body, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return task

    def switch(self) -> None:
        """Let another task run, perhaps."""
        self.block_until(lambda: True)

    def block_until(self, can_run: Callable[[], bool]) -> None:
        """Let other tasks run at least until `can_run` says so."""
        task = self._current
        if self._ending is not None:
            raise self._ending
        task.can_run = can_run
        if self._hand_over(task):
            self._await_turn(task)

    def _hand_over(self, task: Task) -> bool:
        """Choose who runs now; tells whether it is another than `task`."""
        if self._random.random() < _CHANGE:
            task.priority = self._random.random()
        able = [other for other in self._tasks if not other.is_done and other.can_run()]
        if not able:
            waiting = ", ".join(other.name for other in self._tasks if not other.is_done)
            self._end(DeadlockError(f"all of these wait: {waiting}"))
            return True
        keep = self._random.random() < _KEEP
        chosen = max(able, key=lambda o: o.priority) if keep else self._random.choice(able)
        if chosen is task:
            return False
        chosen.turn.release()
        return True

    def _await_turn(self, task: Task) -> None:
        task.turn.acquire()
        if self._ending is not None:
            raise self._ending


class Condition:
    """threading.Condition, but limits never pass: a run that hangs is a deadlock."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_held = False
        self._notified = 0

    def __enter__(self) -> None:
        self._scheduler.block_until(lambda: not self._is_held)
        self._is_held = True

    def __exit__(self, *error: object) -> None:
        self._is_held = False

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002  # none passes
        seen = self._notified
        self._is_held = False
        self._scheduler.block_until(lambda: self._notified > seen and not self._is_held)
        self._is_held = True
        return True

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        while not predicate():
            self.wait(timeout)
        return True

    def notify_all(self) -> None:
        self._notified += 1


class Thread:
    """threading.Thread."""

    def __init__(self, scheduler: Scheduler, *, target: Any, name: str, daemon: bool) -> None:
        assert daemon
        self._scheduler = scheduler
        self._target = target
        self._name = name
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._scheduler.spawn(self._name, self._target)
        del self._target

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done

    def join(self, timeout: float | None = None) -> None:  # noqa: ARG002  # none passes
        self._scheduler.block_until(lambda: not self.is_alive())
