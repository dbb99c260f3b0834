# SPDX-License-Identifier: MIT OR Apache-2.0
"""A pool for celery whose tasks are fibers:

    CELERY_CUSTOM_WORKER_POOL=fiberrt.celery:TaskPool \\
        python -m fiberrt -m celery -A project worker --pool custom --concurrency 100

Hard and soft time limits and revoke(terminate=True) work: they end the waits of a task. A task that only computes is
not interrupted.
"""

from __future__ import annotations

from typing import Any

from celery.concurrency.base import BasePool, apply_target
from celery.exceptions import SoftTimeLimitExceeded

from . import _fiberrt
from ._scopes import move_on_after, shield

__all__ = ["TaskPool"]


class _Job:
    """A task in its fiber, as celery sees it."""

    def __init__(self) -> None:
        self.fiber: Any = None

    def terminate(self, signal: Any = None) -> None:
        """Called beside TaskPool.terminate_job(), which does it."""


class _TimeIsUp(BaseException):
    """The hard time limit of a task has passed."""


class TaskPool(BasePool):  # type: ignore[misc]
    """celery's pool class: --pool custom."""

    signal_safe = False
    is_green = True
    task_join_will_block = False
    body_can_be_buffer = True
    spawn_n = staticmethod(_fiberrt.spawn)  # for the worker's own loops

    def on_start(self) -> None:
        """Called when the worker starts."""
        self._places = _fiberrt.Semaphore(self.limit)
        self._jobs: dict[int, _Job] = {}

    def on_stop(self) -> None:
        """A warm shutdown: wait for the tasks."""
        for job in list(self._jobs.values()):
            job.fiber.join()

    def on_terminate(self) -> None:
        """A cold shutdown: cancel the tasks."""
        for job in list(self._jobs.values()):
            job.fiber.cancel()

    def on_apply(
        self, target: Any, args: Any = None, kwargs: Any = None, callback: Any = None, accept_callback: Any = None,
        timeout: float | None = None, soft_timeout: float | None = None, timeout_callback: Any = None, **_: Any,
    ) -> _Job:  # fmt: skip
        """Run a task in a fiber, when there is a place for it."""
        job = _Job()
        job.fiber = _fiberrt.spawn(
            self._run, job, target, args or (), kwargs or {}, callback, accept_callback, timeout, soft_timeout,
            timeout_callback,
        )  # fmt: skip
        self._jobs[id(job)] = job
        job.fiber.add_done_callback(lambda _: self._jobs.pop(id(job), None))
        return job

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """Cancel a task that has been accepted."""
        job = self._jobs.get(pid)
        if job is not None:
            job.fiber.cancel()

    def grow(self, n: int = 1) -> None:
        """Let n more tasks run at a time."""
        self.limit += n
        self._places.release(n)

    def shrink(self, n: int = 1) -> None:
        """Let n tasks fewer run at a time, when as many have ended."""
        self.limit -= n
        for _ in range(n):
            _fiberrt.spawn(self._places.acquire)

    @property
    def num_processes(self) -> int:
        """The limit."""
        return self.limit  # type: ignore[no-any-return]

    def _run(
        self, job: _Job, target: Any, args: Any, kwargs: Any, callback: Any, accept_callback: Any, timeout: float | None,
        soft_timeout: float | None, timeout_callback: Any,
    ) -> None:  # fmt: skip
        # Limits and cancels end the task's waits, not those of celery's callbacks, which store and acknowledge.
        def limited(*args: Any, **kwargs: Any) -> Any:
            warner = None
            if soft_timeout:
                warner = _fiberrt.spawn(self._warn, job.fiber, soft_timeout, timeout_callback)
            try:
                with move_on_after(timeout or None) as scope:
                    return target(*args, **kwargs)
            finally:
                if warner is not None:
                    warner.cancel()
            assert scope.expired
            raise _TimeIsUp

        with self._places:
            try:
                apply_target(
                    limited, args, kwargs, _shielded(callback), _shielded(accept_callback), pid=id(job),
                    propagate=(_fiberrt.CancelledError, _TimeIsUp),
                )  # fmt: skip
            except _TimeIsUp:
                _shielded(timeout_callback)(False, timeout)

    @staticmethod
    def _warn(fiber: Any, seconds: float, timeout_callback: Any) -> None:
        _fiberrt.sleep(seconds)
        timeout_callback(True, seconds)
        if not fiber.done:
            fiber.throw(SoftTimeLimitExceeded(seconds))


def _shielded(callback: Any) -> Any:
    def call(*args: Any) -> None:
        with shield():
            callback(*args)

    return callback and call
