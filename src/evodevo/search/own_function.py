"""Where a function of the user's own is evaluated: in forks of this process, where that is safe."""

from __future__ import annotations

import warnings

from evodevo.execution.base import Executor
from evodevo.execution.forked import ForkedExecutor, is_forkable
from evodevo.execution.serial import SerialExecutor
from evodevo.search.problem import Problem


def default_executor(problem: Problem) -> Executor:
    """The executor of a study that was given none; it has yet to adopt the problem's functions.

    Functions of this process run in forks of it, so that a crash or a hang is the end of one evaluation. A process with
    several threads cannot be forked safely; there they run in this process, and a warning says so.
    """
    functions = problem.local_evaluators()
    if functions and is_forkable():
        return ForkedExecutor()
    if functions:
        warnings.warn(
            "this process has several threads, so that it cannot be forked, and the function runs in it: a crash ends "
            "the study, and limits of time and memory do not hold. For isolation start the study from a process "
            "without threads, or register an evaluator and pass executor=ProcessExecutor(…); to silence this, pass "
            "executor=SerialExecutor().",
            stacklevel=3,
        )
    return SerialExecutor()
