"""Engine: the threads of a worker in one process."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from queue import Empty
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._latch import Latch, Once
from jetsync._locks import lock
from jetsync._log import Log
from jetsync._native import NativeQueue
from jetsync._threads import start_thread
from jetsync.errors import (
    ConnectionClosedError,
    Error,
    NoRespondersError,
)
from jetsync.jetstream.settle import (
    DeadLetters,
    Settler,
    delivery_of,
    is_refused,
    is_terminated,
)
from jetsync.jetstream.settle.dead_letter import error_text
from jetsync.worker.clock import Clock
from jetsync.worker.intake import Order
from jetsync.worker.lanes import Job, Lanes
from jetsync.worker.lifetime import Lifetime
from jetsync.worker.options import WorkerOptions, check_handler, key_function
from jetsync.worker.report import Outcome, WorkerHealth, WorkerReport, WorkerStats
from jetsync.worker.source import Opened

if TYPE_CHECKING:
    from jetsync import JetStreamMsg
    from jetsync.jetstream.acks.keep_alive import KeepAlive

__all__ = ["Engine"]

logger: Log = Log("jetsync.worker")

_FLUSH = 5.0
_SETTLE_AGAIN = 0.5
_LOOK = 0.5


class Engine(Lifetime):
    """One thread takes messages, some run the handler, one does timed work. Thread-safe."""

    def __init__(self, source: Any, handler: Callable[[Any], Any], options: WorkerOptions) -> None:
        super().__init__()
        check_handler(handler)
        self._source = source
        self._handler = handler
        self._options = options
        self.stats: WorkerStats = WorkerStats()
        self._counting = lock("worker/engine.py _counting")
        self._held: dict[int, Job] = {}  # by stream sequence
        self._waiting: dict[int, Job] = {}  # not begun: the thread that pops one owns it
        self._running: dict[int, Job] = {}
        self._ready: NativeQueue[Job | None] = NativeQueue()
        self._space: NativeQueue[None] = NativeQueue()
        self._starving = False
        self._draining = Latch()
        self._begins_taking, self._begins_ending = Once(), Once()
        self._taker: threading.Thread | None = None
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._opened: Opened | None = None
        self._order: Order | None = None
        self._lanes: Lanes | None = None
        self._alive: KeepAlive | None = None
        self._clock: Clock | None = None

    # -- start and end -----------------------------------------------------------------------------

    def start(self, on_open: Callable[[], object] | None = None) -> None:
        """Open the source, report that, and start the threads. Blocks while it connects."""
        try:
            self._start(on_open)
        except BaseException:
            self._stopping.set()
            self._is_cut_short = True
            if self._begins_taking.first():  # otherwise the thread that takes messages ends it
                self._reason = "it could not be started"
                self._close()
                self._over.set()
            elif self._opened is not None:
                self._opened.feed.stop()
            raise

    def _start(self, on_open: Callable[[], object] | None) -> None:
        options = self._options
        if options.setup is not None:
            options.setup()
        self._opened = opened = Opened(self._source, options)
        self._handler = opened.feed.observed(self._handler)
        if on_open is not None:
            on_open()
        letters = None
        if options.dead_letter is not None:
            letters = DeadLetters(opened.connection.jetstream(), options.dead_letter)
        self._settler = Settler(
            options.retry,
            dead_letters=letters,
            on_dead_letter_failed=functools.partial(opened.feed.tell, "dead_letter_failed"),
            ack_sync=options.ack_sync,
        )
        if (key := key_function(options.key)) is not None:
            self._lanes = Lanes(self._ready.put)
            self._order = Order(key, self._lanes, opened.feed, opened.pending_acks)
        self._started = time.monotonic()
        alive = opened.feed.keep_alive(self._to_keep_alive)
        alive.__enter__()
        self._alive = alive
        self._clock = Clock(self._every_second)
        self._threads = [start_thread("worker-handle", self._work) for _ in range(options.threads)]
        self._taker = start_thread("worker-take", self._take)

    def stop(self, reason: str = "stopped") -> None:
        """Take no more messages; the worker ends when those it holds are dealt with."""
        self._begin_stop(reason)
        self._space.put(None)
        if self._opened is not None:
            self._opened.feed.stop()

    def drain(self, timeout: Seconds | None, reason: str = "drained") -> WorkerReport:
        """Stop, hand back what has not begun, wait for the handlers. Blocks."""
        limit = self._options.drain_timeout if timeout is None else timeout
        if self._over.is_set():
            return self.wait(None)
        self.stop(reason)
        self._draining.set()
        self._end(Deadline(to_seconds(limit, "timeout")))
        return self.wait(None)

    def abandon(self, reason: str) -> None:
        """End without waiting: the process ends, and its threads with it."""
        self.stop(reason)

    @property
    def place(self) -> tuple[str, str] | None:
        """Stream and consumer; None before it is started."""
        return None if self._opened is None else (self._opened.stream, self._opened.consumer)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._opened is not None and not self._over.is_set()

    def _end(self, deadline: Deadline) -> None:
        """End the worker, once; a second thread leaves that to the first."""
        if not self._begins_ending.first():
            return
        opened = self._opened
        assert opened is not None
        try:
            if self._taker is not None:
                self._taker.join(deadline.within(_FLUSH))
            self._release_waiting()
            for _ in self._threads:
                self._ready.put(None)
            for thread in self._threads:
                thread.join(deadline.remaining())
            unfinished = list(self._running.values())
            for job in unfinished:
                job.is_over = True
                self._quietly(job.msg.nak)
            if not opened.connection.is_closed:
                self._quietly(lambda: opened.feed.flush(Deadline(_FLUSH)))
            if self._options.teardown is not None:
                self._options.teardown()
        finally:
            self._close()
            self._finish(self.stats, len(self._running))

    def _close(self) -> None:
        """Let every thread end, and close what is open, also when the end was interrupted."""
        for _ in range(self._options.threads):
            self._ready.put(None)
        try:
            if self._alive is not None:
                self._alive.__exit__(None, None, None)
            if self._clock is not None:
                self._clock.close()
        finally:
            if self._opened is not None:
                self._opened.close()

    def _release_waiting(self) -> None:
        if self._lanes is not None:
            self._lanes.clear()
        for job in sorted(list(self._waiting.values())):
            self._release(job)

    def _release(self, job: Job) -> None:
        """Hand a job back that no thread has begun; what is still in the queue is skipped there."""
        if self._claim(job):
            self._quietly(job.msg.nak)
            self._settled(job, "released", None, None, 0.0)

    def _claim(self, job: Job) -> bool:
        """Whether a job has waited until now, and is the caller's from here on."""
        return self._waiting.get(job.seq) is job and self._waiting.pop(job.seq, None) is job

    def _quietly(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Error as error:
            logger.warning("while a worker ends: %s", error_text(error))

    # -- taking ------------------------------------------------------------------------------------

    def _take(self) -> None:
        if not self._begins_taking.first():
            return
        try:
            if self._order is not None:
                self._stopping.wait(self._order.begins - time.monotonic())
            while not self._stopping.is_set():
                self._take_some()
        except Exception as error:  # noqa: BLE001 - it is reported, and ends the worker
            if not self._stopping.is_set():
                self._error = error
                self._reason = error_text(error)
                logger.error("the worker ends: %s", self._reason)
                self.stop(self._reason)
        if self._order is not None:
            # Lost deliveries will not come to this worker any more.
            for job in self._order.end():
                self._release(job)
        while self._held and not self._draining.wait(0.02):
            if self._opened is not None and self._opened.connection.is_closed:
                break
        self._end(Deadline(self._options.drain_timeout))

    def _take_some(self) -> None:
        assert self._opened is not None
        feed, order = self._opened.feed, self._order
        self._starving = True
        if free := self._room(feed.credit):
            feed.free(free)
        if feed.credit <= 0:
            try:
                self._space.get(timeout=_LOOK)
            except Empty:
                pass
        else:
            self._starving = False
            self._admit(feed.take(_LOOK))
        if order is not None:
            order.end_wait()

    def _room(self, credit: int) -> int:
        """How many messages more to ask for: half of what may be held, so that few pulls do, or
        less when a thread has nothing to do."""
        limit = self._options.most_held
        free = limit - len(self._held) - credit
        if free > 0 and free < limit // 2:
            idle = self._options.threads - len(self._running)
            if credit > 0 or idle <= self._ready.qsize():
                return 0
        return max(0, free)

    def _admit(self, messages: list[JetStreamMsg]) -> None:
        """Make jobs of messages, for the threads that wait for one."""
        held, waiting, order = self._held, self._waiting, self._order
        start = self._ready.put if order is None else order.give
        for msg in messages:
            deliveries, seq, consumer_seq, stamp = delivery_of(msg)
            if order is not None:
                order.saw(consumer_seq)
            here = held.get(seq)
            if here is None or here.stamp != stamp:
                # Even when it was done before: after a reset of the consumer that is wanted.
                held[seq] = waiting[seq] = job = Job(msg, deliveries, seq, stamp)
                start(job)
            else:  # delivered again although it is alive here: it is settled by this one
                if here.in_hand is not None and is_refused(here.in_hand):
                    here.came_again = True  # its handler's outcome does not count
                here.msg = msg
                here.deliveries = max(here.deliveries, deliveries)

    # -- working -----------------------------------------------------------------------------------

    def _work(self) -> None:
        next_job, running = self._ready.get, self._running
        while (job := next_job()) is not None:
            if self._claim(job):
                running[job.seq] = job
                try:
                    self._run(job)
                except Exception:
                    logger.exception("message %s could not be settled", job.seq)
                    if running.get(job.seq) is job:
                        self._settled(job, "released", None, None, 0.0)
                        if self._lanes is not None and not self._draining.is_set():
                            self._lanes.over(job)  # otherwise its key would wait for ever
            del job

    def _run(self, job: Job) -> None:
        if job.verdict is not None:  # its dead letter was refused before
            self._give_up(job, *job.verdict[:2], 0.0)
            return
        if job.deliveries > self._options.crash_tries and not job.tries_here:
            self._give_up(job, "crashed", None, 0.0)
            return
        msg, tries = job.msg, job.deliveries + job.tries_here
        job.in_hand = msg
        job.begun = begun = time.monotonic()
        error: BaseException | None = None
        try:
            self._handler(msg)
        except BaseException as raised:  # noqa: BLE001 - user code may raise anything
            error = raised
        seconds = time.monotonic() - begun
        if job.is_over:
            self._running.pop(job.seq, None)
        elif is_refused(msg):  # by its handler: the server delivers it again, or never
            kind = "terminated" if is_terminated(msg) else "retried"
            self._settled(job, kind, error, None, seconds)
            if job.came_again:
                self._quietly(job.msg.nak)
        elif msg.is_acked or error is None:
            self._acknowledge(job, error, seconds)
        elif isinstance(error, (SystemExit, KeyboardInterrupt)):
            self._quietly(job.msg.nak)
            self._settled(job, "released", error, None, seconds)
            self._reason = f"{type(error).__name__} in a handler"
            self.stop(self._reason)
            self._draining.set()
        else:
            failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            verdict = self._settler.judge(msg, failure, tries)
            if verdict.delay is None:
                self._give_up(job, verdict.reason, error, seconds)
            else:
                logger.warning(
                    "message %s of %s, try %d: %s",
                    job.seq,
                    self._opened.stream if self._opened else "",
                    tries,
                    error_text(error),
                )
                self._try_again(job, verdict.delay, error, seconds)

    def _acknowledge(self, job: Job, error: BaseException | None, seconds: float) -> None:
        assert self._opened is not None
        while not job.is_over:
            try:
                if not job.msg.is_acked:
                    self._settler.done(job.msg)
                break
            except (ConnectionClosedError, NoRespondersError) as failure:
                logger.warning(
                    "message %s is done, but not acknowledged: %s", job.seq, error_text(failure)
                )
                break
            except Error as failure:  # no room, no answer: the message stays held meanwhile
                if self._draining.wait(_SETTLE_AGAIN):
                    logger.warning(
                        "message %s is not acknowledged: %s", job.seq, error_text(failure)
                    )
                    break
        self._settled(job, "done", error, None, seconds)

    def _give_up(self, job: Job, reason: str, error: BaseException | None, seconds: float) -> None:
        if job.verdict is None:
            job.verdict = reason, error, job.deliveries + job.tries_here
        kind = self._settler.give_up(job.msg, *job.verdict)
        if kind is None:
            self._try_again(job, self._settler.limit, error, seconds)
        else:
            self._settled(job, kind, error, None, seconds)

    def _try_again(
        self, job: Job, delay: float, error: BaseException | None, seconds: float
    ) -> None:
        if self._lanes is None or self._clock is None:
            self._settler.try_again(job.msg, delay)
            self._settled(job, "retried", error, delay, seconds)
            return
        # With a key it waits here, in front of the others of its key, and is kept alive.
        job.tries_here += 1
        job.begun, job.is_stuck = 0.0, False
        self._count(job, "retried", error, delay, seconds)
        self._waiting[job.seq] = job
        self._running.pop(job.seq, None)
        self._clock.later(delay, lambda: self._ready.put(job))
        if self._draining.is_set():
            self._release_waiting()

    def _settled(
        self, job: Job, kind: str, error: BaseException | None, delay: float | None, seconds: float
    ) -> None:
        """A message has left the worker."""
        self._count(job, kind, error, delay, seconds)
        self._held.pop(job.seq, None)
        self._running.pop(job.seq, None)
        if self._lanes is not None and kind != "released":
            self._lanes.over(job)
        if self._starving and self._room(0):
            self._starving = False
            self._space.put(None)

    def _count(
        self, job: Job, kind: str, error: BaseException | None, delay: float | None, seconds: float
    ) -> None:
        with self._counting:
            self.stats.count(kind, seconds)
        if self._options.on_outcome is not None:
            try:
                self._options.on_outcome(Outcome(kind, job.msg, error, delay, seconds))
            except Exception:
                logger.exception("on_outcome raised")

    # -- health ------------------------------------------------------------------------------------

    def _to_keep_alive(self) -> list[JetStreamMsg]:
        return [job.msg for job in list(self._held.values()) if not job.is_stuck]

    def _every_second(self) -> None:
        if self._options.max_runtime is None or self._opened is None:
            return
        limit, now = to_seconds(self._options.max_runtime), time.monotonic()
        for job in list(self._running.values()):
            if job.begun and not job.is_stuck and now - job.begun > limit:
                job.is_stuck = True
                text = f"a handler has run for more than {limit:g} s (max_runtime)"
                self._opened.feed.tell("stuck", job.msg, Error(text))

    def health(self) -> WorkerHealth:
        """Return its health. Does not block."""
        opened, now = self._opened, time.monotonic()
        running = [job for job in list(self._running.values()) if job.begun]
        problems: list[str] = []
        connected = opened is not None and opened.connection.is_connected
        if not self.is_running:
            problems.append(f"it has ended: {self._reason}" if opened else "it is not started")
        elif self._stopping.is_set():
            problems.append(f"it is ending: {self._reason}")
        elif not connected:
            problems.append("there is no link to a server")
        stuck = sum(job.is_stuck for job in running)
        if stuck:
            problems.append(f"{stuck} handlers have run for longer than max_runtime")
        if self._order is not None:
            if now < self._order.begins:
                problems.append("it waits for what a worker before it has left unsettled")
            if self._order.problem is not None:
                problems.append(self._order.problem)
            is_full = len(self._held) >= self._options.most_held
            if is_full and len(running) < self._options.threads:
                problems.append("prefetch is full of messages whose keys are held: raise prefetch")
        return WorkerHealth(
            alive=self.is_running,
            ready=self.is_running and connected and not self._stopping.is_set() and not stuck,
            connected=connected,
            in_flight=len(running),
            oldest_seconds=max((now - job.begun for job in running), default=0.0),
            last_outcome=self.stats.last_outcome,
            problems=problems,
        )
