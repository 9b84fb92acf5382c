"""Which query, batch and partition the running task belongs to.

Spark does not hand query and batch to a writer, but they are in the local properties of its tasks;
also in those of jobs that a function of ``foreachBatch`` starts.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Task", "running_task"]


@dataclass(frozen=True)
class Task:
    """Where the running task belongs to. ``query`` is the id in the query's checkpoint."""

    query: str | None = None
    batch_id: str | None = None
    partition: int = 0


def running_task() -> Task:
    """Return what is known here: nothing outside of a task, no query in a batch job."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Task()
    return Task(
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
        context.partitionId(),
    )
