"""What a fit waits for on a cluster: answers, until a time limit or until nobody gives them."""

from collections.abc import Callable, Collection, Sequence
from threading import Event, Thread
from time import monotonic
from typing import Any

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.values import shown

# Seconds without any worker or a reply from the scheduler after which a fit gives up. A worker
# needs a few seconds to restart; "distributed.comm.timeouts.connect" of dask's configuration is
# used if it is larger.
PATIENCE = 30.0
_CHECK_SECONDS = 1.0  # between checks of the workers, and at most for a call that only helps
_CHECKS = 3  # of the scheduler that go unanswered before a fit gives up
_AT_LEAST = 0.01  # seconds to wait for answers that may be there already

UNLIMITED = TimeLimit(None)


class ClusterLost(RuntimeError):
    """No worker or no scheduler is left, so results will not arrive."""


class ClusterTimeout(TimeoutError):
    """The time limit of a fit passed while it waited for the cluster."""


class Late(Exception):
    """A call did not return in time."""


class Call:
    """A call in a thread of its own, since it may never return."""

    def __init__(self, call: Callable[[], Any]):
        self._ended = Event()
        self._value, self._error = None, None
        Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._value = call()
        except BaseException as error:
            self._error = error
        self._ended.set()

    def ends_in(self, seconds: float) -> bool:
        """Whether it has returned after so many seconds."""
        return self._ended.wait(seconds)

    def result(self, seconds: float = 0.0) -> Any:
        """What it returned or raised, or :class:`Late` if it has not after so many seconds."""
        if not self.ends_in(seconds):
            raise Late
        if self._error is not None:
            raise self._error
        return self._value


class Waiting:
    """Calls that end with a time limit, and when the cluster of a client is lost.

    Parameters
    ----------
    client : distributed.Client
    limit : TimeLimit
    """

    def __init__(self, client: Any, limit: TimeLimit):
        self._client, self.limit = client, limit

    def asked(self, call: Callable[[], Any]) -> Any:
        """What the scheduler answers to a call of the client.

        Raises
        ------
        Late
            After the time limit.
        ClusterLost
            If it does not answer, or has no such blocks.
        """
        from concurrent.futures import CancelledError

        if self._client.scheduler is None:  # the client is closed
            raise self.lost()
        started = Call(call)
        try:
            self.wait(started.ends_in)
            return started.result()
        except CancelledError as error:
            raise self.dropped() from error
        except OSError as error:
            raise self.lost() from error

    def wait(
        self, is_done: Callable[[float], bool], workers: Collection[str] | None = None
    ) -> bool:
        """Wait until ``is_done(seconds)``; False if before that one of these workers is missing.

        Raises
        ------
        Late
            After the time limit.
        ClusterLost
            After some patience without any worker or a scheduler that answers.
        """
        since = monotonic()
        while not is_done(self.limit.at_most(_CHECK_SECONDS, _AT_LEAST)):
            if self.limit.left == 0.0:
                raise Late
            there = self._workers()
            if workers is not None and not there >= set(workers):
                return False
            if there:
                since = monotonic()
            elif monotonic() - since > self._patience():
                raise self.lost()
        return True

    def is_served(self) -> bool:
        """Whether there is a scheduler that answers, and a worker."""
        return bool(self._workers())

    def _workers(self) -> set[str]:
        """Addresses; none if the scheduler does not answer."""
        if self._client.status != "running":
            return set()
        try:
            seconds = self.limit.at_most(self._patience() / _CHECKS, _AT_LEAST)
            return set(Call(self._client.nthreads).result(seconds))
        except (Late, OSError):
            return set()

    def try_briefly(self, call: Callable[[], Any]) -> Any:
        """The result of a call that only helps, None if it takes long or fails."""
        try:
            return Call(call).result(_CHECK_SECONDS)
        except Exception:
            return None

    def _patience(self) -> float:
        import dask.config as config
        from dask.utils import parse_timedelta

        configured = config.get("distributed.comm.timeouts.connect", None)
        return PATIENCE if configured is None else max(PATIENCE, parse_timedelta(configured))

    def lost(self) -> ClusterLost:
        """The error if nobody answers."""
        return self._ended(f"has had no worker or no scheduler for {self._patience():g} s")

    def dropped(self) -> ClusterLost:
        """The error if blocks were canceled, which also happens when a scheduler ends."""
        return self._ended("no longer has the blocks: its scheduler was restarted or lost")

    def _ended(self, why: str) -> ClusterLost:
        return ClusterLost(
            f"The cluster at {self._address()} {why}; the best point so far is on the estimator, "
            "if there was one."
        )

    def late(self, what: str, waited: Sequence[Any]) -> ClusterTimeout:
        """The error after the time limit, with how many futures are done; None is not done."""
        done = sum(future is not None and future.done() for future in waited)
        return ClusterTimeout(
            f"the time limit passed while the cluster at {self._address()} was at {what}: {done} "
            f"of {len(waited)} blocks were done{self._paused()}"
        )

    def _address(self) -> str:
        return shown(getattr(self._client.scheduler, "address", None))

    def _paused(self) -> str:
        """What is known of workers that have stopped, for a message."""
        threads = self.try_briefly(self._client.nthreads)
        if threads is None:
            return "; the scheduler does not answer"
        if not threads:
            return "; there is no worker"
        # A client replaces this by information without workers every few seconds, maybe just now.
        info = self.try_briefly(lambda: self._client.scheduler_info(n_workers=-1)) or {}
        known = info.get("workers", {}).values()
        paused = sum(worker.get("status") == "paused" for worker in known)
        if not paused:
            return ""
        return f"; {paused} of {len(threads)} workers are paused, since their memory is full"
