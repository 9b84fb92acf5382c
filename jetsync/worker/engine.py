"""Engine: the threads of a worker in one process."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._latch import Latch, Once
from jetsync._log import Log
from jetsync._threads import start_thread
from jetsync.errors import ConnectionClosedError, Error, NoRespondersError
from jetsync.jetstream.settle import DeadLetters, Settler, is_refused, is_terminated
from jetsync.jetstream.settle.dead_letter import error_text
from jetsync.worker.clock import Clock
from jetsync.worker.crew import Crew
from jetsync.worker.health import examined
from jetsync.worker.intake import Order
from jetsync.worker.jobs import Jobs
from jetsync.worker.lanes import Job, Lanes
from jetsync.worker.lifetime import Lifetime
from jetsync.worker.options import WorkerOptions, check_handler, key_function
from jetsync.worker.pace import PATIENCE, QUICK
from jetsync.worker.report import Outcome, Tallies, Tally, WorkerHealth, WorkerReport, WorkerStats
from jetsync.worker.source import Opened

if TYPE_CHECKING:
    from jetsync import JetStreamMsg
    from jetsync.jetstream.acks.keep_alive import KeepAlive

__all__ = ["Engine"]

logger: Log = Log("jetsync.worker")

_FLUSH = 5.0
_AT_LEAST = 0.15  # seconds for the last acknowledgements, when the handlers took all the time
_SETTLE_AGAIN = 0.5
_CHECK_EVERY = 0.5
_AWAKE = 4
"""How often the thread that watches looks again in vain; a busy worker need not rouse it then."""


class Engine(Lifetime):
    """Threads that take messages and run the handler, one that watches them, and one for timed
    work. Thread-safe.

    A thread that runs the handler takes messages itself when none waits, so a short handler costs
    no change of threads. While handlers run for long, the thread that watches takes them.
    """

    def __init__(self, source: Any, handler: Callable[[Any], Any], options: WorkerOptions) -> None:
        super().__init__()
        check_handler(handler)
        self._source, self._handler, self._options = source, handler, options
        self._on_outcome, self._ack_sync = options.on_outcome, options.ack_sync
        self._tallies = Tallies()
        self._jobs = Jobs(options.most_held, self._stopping)
        self._running: set[Job] = set()
        self._crew = Crew(self._is_left, self._needs_watching)
        self._has_unsent = False  # acknowledgements that no thread has sent yet
        self._settler = Settler(options.retry)
        self._draining = Latch()
        self._begins_watching, self._begins_ending, self._tears_down = Once(), Once(), Once()
        self._watcher: threading.Thread | None = None
        self._threads: list[threading.Thread] = []
        self._opened: Opened | None = None
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
            if self._begins_watching.first():  # otherwise the thread that watches ends it
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
        self._jobs.feed = opened.feed
        self._handler = opened.feed.observed(self._handler)
        if on_open is not None:
            on_open()
        letters = None
        if options.dead_letter is not None:
            letters = DeadLetters(opened.feed.js, options.dead_letter)
        self._settler = Settler(
            options.retry,
            dead_letters=letters,
            on_dead_letter_failed=functools.partial(opened.feed.tell, "dead_letter_failed"),
            ack_sync=options.ack_sync,
        )
        if (key := key_function(options.key)) is not None:
            self._lanes = Lanes(self._jobs.ready.append)
            self._jobs.order = Order(key, self._lanes, opened.feed, opened.pending_acks)
        self._jobs.turn.acquire()  # until the thread that watches gives it free
        self._started = time.monotonic()
        alive = opened.feed.keep_alive(self._to_keep_alive)
        alive.__enter__()
        self._alive = alive
        self._clock = Clock(self._every_second)
        self._threads = [start_thread("worker-handle", self._work) for _ in range(options.threads)]
        self._watcher = start_thread("worker-take", self._watch)

    def stop(self, reason: str = "stopped") -> None:
        """Take no more messages; the worker ends when those it holds are dealt with."""
        self._begin_stop(reason)
        if self._opened is not None:
            self._opened.feed.stop()
        self._crew.rouse()

    def drain(self, timeout: Seconds | None, reason: str = "drained") -> WorkerReport:
        """Stop, hand back what has not begun, wait for the handlers. Blocks."""
        limit = self._options.drain_timeout if timeout is None else timeout
        if self._over.is_set():
            return self.wait(None)
        self.stop(reason)
        self._draining.set()
        self._begins_ending.first()  # now the thread that watches leaves it to this one
        self._end(Deadline(to_seconds(limit, "timeout")))
        return self.wait(None)

    def abandon(self, reason: str) -> None:
        """End without waiting: the process ends, and its threads with it."""
        self.stop(reason)

    @property
    def names(self) -> tuple[str, str] | None:
        """Stream and consumer; None before it is started."""
        return None if self._opened is None else (self._opened.stream, self._opened.consumer)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._opened is not None and not self._over.is_set()

    def _end(self, deadline: Deadline) -> None:
        """End the worker. Several threads may: the one with the least time ends it for all."""
        opened = self._opened
        assert opened is not None
        try:
            if self._watcher is not None:
                self._watcher.join(deadline.within(_FLUSH))
            if self._over.is_set():
                return
            self._release_waiting(deadline)
            self._crew.end()
            for thread in self._threads:
                thread.join(deadline.remaining())
            for job in list(self._running):
                if not job.is_over:
                    job.is_over = True
                    self._hand_back(job, deadline)
            if not opened.connection.is_closed:
                left = max(_AT_LEAST, deadline.within(_FLUSH))
                self._quietly(lambda: opened.feed.flush(Deadline(left)))
            if self._options.teardown is not None and self._tears_down.first():
                self._options.teardown()
        finally:
            self._close()
            self._finish(self.stats, len(self._running))

    def _close(self) -> None:
        """Let every thread end, and close what is open, also when the end was interrupted."""
        self._crew.end()
        try:
            if self._alive is not None:
                self._alive.__exit__(None, None, None)
            if self._clock is not None:
                self._clock.close()
        finally:
            if self._opened is not None:
                self._opened.close()

    def _release_waiting(self, deadline: Deadline | None = None) -> None:
        if self._lanes is not None:
            self._lanes.clear()
        tally = self._tallies.new()
        for job in self._jobs.waiting():
            self._release(job, tally, deadline)

    def _release(self, job: Job, tally: Tally, deadline: Deadline | None = None) -> None:
        """Hand a job back that no thread has begun; what is still in the queue is skipped there."""
        if self._jobs.claim(job):
            job.tally = tally
            self._hand_back(job, deadline or Deadline(_FLUSH))
            self._settled(job, "released", None, None, 0.0)

    def _hand_back(self, job: Job, deadline: Deadline) -> None:
        self._quietly(lambda: self._jobs.feed.hand_back(job.msg, deadline.within(_FLUSH)))

    def _quietly(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Error as error:
            logger.warning("while a worker ends: %s", error_text(error))

    # -- watching ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        """See to it that waiting messages are taken and handled, and end the worker."""
        if not self._begins_watching.first():
            return
        jobs, order = self._jobs, self._jobs.order
        if order is not None:
            self._try_taking(functools.partial(order.begin, self._stopping))
        jobs.turn.release()
        self._crew.wake()
        idle = 0
        while not self._stopping.is_set():
            idle = 0 if self._needs_watching() else idle + 1
            if idle < _AWAKE:
                time.sleep(PATIENCE)
                self._check_threads()
            else:
                self._crew.sleep(_CHECK_EVERY)
            self._try_taking(jobs.check_order)
        jobs.turn.acquire()  # no thread takes any more: the feed has been stopped
        if order is not None:
            tally = self._tallies.new()
            for job in order.end():  # lost deliveries will not come to this worker any more
                self._release(job, tally)
        while jobs.by_seq and not self._draining.wait(self._next_check()):
            self._check_threads()
            if self._opened is not None and self._opened.connection.is_closed:
                break
        if self._begins_ending.first():
            self._end(Deadline(self._options.drain_timeout))

    def _check_threads(self) -> None:
        """Send acknowledgements. When no thread has begun a job for a while, wake one, or take
        messages for them."""
        self._send()
        begun = max((job.begun for job in list(self._running)), default=0.0)
        if (now := time.monotonic()) - begun <= PATIENCE or not self._needs_watching():
            return
        self._crew.pace.stuck(now)
        if not self._crew.wake():  # all threads are busy
            self._take(_CHECK_EVERY)
            for _ in range(len(self._jobs.ready)):
                self._crew.wake()

    def _needs_watching(self) -> bool:
        """Whether there is something to do that no thread may come to soon."""
        jobs = self._jobs
        return self._has_unsent or (bool(jobs.ready) and self._crew.has_resting) or jobs.may_take()

    def _is_left(self) -> bool:
        """Whether there is something to do for a thread that has nothing to do."""
        return bool(self._jobs.ready) or self._jobs.may_take()

    def _next_check(self) -> float:
        """Seconds until the threads are checked again, while the worker ends."""
        return PATIENCE if self._needs_watching() else 20 * PATIENCE

    def _take(self, seconds: float) -> None:
        self._try_taking(lambda: self._jobs.take(seconds, self._send))

    def _try_taking(self, step: Callable[[], None]) -> None:
        """Do a step with the feed. An error ends the worker."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - it is reported, and ends the worker
            if not self._stopping.is_set():
                self._reason = error_text(error)
                if not self._opened or not self._opened.feed.comes_of_exit(error):
                    logger.error("the worker ends: %s", self._reason)
                self.stop(self._reason)

    def _send(self) -> None:
        """Send the acknowledgements that have not left."""
        if self._has_unsent:
            self._has_unsent = False
            self._jobs.feed.send()

    # -- working -----------------------------------------------------------------------------------

    def _work(self) -> None:
        jobs, crew, running = self._jobs, self._crew, self._running
        ready, by_seq, feed, half = jobs.ready, jobs.by_seq, jobs.feed, jobs.half
        gate, tally = crew.gate(), self._tallies.new()
        while True:
            if not ready:
                self._take(_CHECK_EVERY)
            elif jobs.limit - len(by_seq) - feed.credit >= half:
                self._take(0.0)
            try:
                job = ready.popleft()
            except IndexError:
                self._send()
                if crew.is_over:
                    return
                crew.rest(gate)
                continue
            if not jobs.claim(job):
                continue
            job.tally = tally
            running.add(job)
            crew.begin()
            try:
                self._run(job)
            except Exception:
                logger.exception("message %s could not be settled", job.seq)
                if job in running:
                    self._settled(job, "released", None, None, 0.0)
                    if self._lanes is not None and not self._draining.is_set():
                        self._lanes.over(job)  # otherwise its key would wait for ever
            del job
            if running and ready:
                crew.step_back(gate)

    def _run(self, job: Job) -> None:
        if job.verdict is not None:  # its dead letter was refused before
            self._give_up(job, *job.verdict[:2], 0.0)
            return
        if job.deliveries > self._options.crash_tries and not job.tries_here:
            self._give_up(job, "crashed", None, 0.0)
            return
        msg, tries = job.msg, job.deliveries + job.tries_here
        job.given = msg
        pace = self._crew.pace
        cpu = 0.0 if (is_quick := pace.is_quick) else time.thread_time()
        job.begun = begun = time.monotonic()
        error: BaseException | None = None
        try:
            self._handler(msg)
        except BaseException as raised:  # noqa: BLE001 - user code may raise anything
            error = raised
        seconds = (now := time.monotonic()) - begun
        if seconds > QUICK or not is_quick:
            pace.note(seconds, None if is_quick else time.thread_time() - cpu, now)
        if job.is_over:
            self._running.discard(job)
        elif error is None and not msg.is_acked:  # as nearly always
            if seconds > PATIENCE or self._ack_sync:
                self._acknowledge(job, None, seconds)
                return
            try:
                self._jobs.feed.ack(msg)
            except Error:
                self._acknowledge(job, None, seconds)
                return
            self._has_unsent = True
            self._settled(job, "done", None, None, seconds)
        elif is_refused(msg):  # by its handler: the server delivers it again, or never
            kind = "terminated" if is_terminated(msg) else "retried"
            self._settled(job, kind, error, None, seconds)
            if job.came_again:
                self._quietly(job.msg.nak)
        elif error is None or msg.is_acked:
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
        while not job.is_over:
            try:
                self._settler.done(job.msg)
                break
            except (ConnectionClosedError, NoRespondersError) as failure:
                if not self._jobs.feed.comes_of_exit(failure):
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
        self._jobs.wait_again(job)
        self._running.discard(job)
        self._clock.later(delay, lambda: self._go_on(job))
        if self._draining.is_set():
            self._release_waiting()

    def _go_on(self, job: Job) -> None:
        """Let a thread begin a job whose time has come; one that only waits for messages, too."""
        self._jobs.ready.append(job)
        if not self._crew.wake():
            self._jobs.feed.interrupt()

    def _settled(
        self, job: Job, kind: str, error: BaseException | None, delay: float | None, seconds: float
    ) -> None:
        """A message has left the worker."""
        if kind == "done" and self._on_outcome is None:
            job.tally.done(seconds, time.monotonic())
        else:
            self._count(job, kind, error, delay, seconds)
        by_seq = self._jobs.by_seq
        if by_seq.get(job.seq) is job:  # the stream may have been made again
            del by_seq[job.seq]
        self._running.discard(job)
        if self._lanes is not None and kind != "released":
            self._lanes.over(job)

    def _count(
        self, job: Job, kind: str, error: BaseException | None, delay: float | None, seconds: float
    ) -> None:
        job.tally.count(kind, seconds)
        if self._on_outcome is not None:
            try:
                self._on_outcome(Outcome(kind, job.msg, error, delay, seconds))
            except Exception:
                logger.exception("on_outcome raised")

    @property
    def stats(self) -> WorkerStats:
        """The counts of all threads."""
        return self._tallies.total()

    # -- health ------------------------------------------------------------------------------------

    def _to_keep_alive(self) -> list[JetStreamMsg]:
        return [job.msg for job in list(self._jobs.by_seq.values()) if not job.is_stuck]

    def _every_second(self) -> None:
        if self._options.max_runtime is None or self._opened is None:
            return
        limit, now = to_seconds(self._options.max_runtime), time.monotonic()
        for job in list(self._running):
            if job.begun and not job.is_stuck and now - job.begun > limit:
                job.is_stuck = True
                text = f"a handler has run for more than {limit:g} s (max_runtime)"
                self._opened.feed.tell("stuck", job.msg, Error(text))

    def health(self) -> WorkerHealth:
        """Return its health. Does not block."""
        opened = self._opened
        ending = f"it is ending: {self._reason}" if self._stopping.is_set() else None
        if not self.is_running:
            ending = f"it has ended: {self._reason}" if opened else "it is not started"
        return examined(
            self._jobs,
            [job for job in list(self._running) if job.begun],
            threads=self._options.threads,
            is_running=self.is_running,
            is_connected=opened is not None and opened.connection.is_connected,
            ending=ending,
            refused=self._settler.refusal,
            last_outcome=self.stats.last_outcome,
        )
