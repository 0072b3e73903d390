"""Evaluators that misbehave on purpose, for the conformance suite of executors; workers find them by name."""

from evodevo.registry import declare

declare(
    "evodevo.evaluators",
    {
        "testing.abort": "evodevo.testing.evaluations.evaluators:abort",
        "testing.act": "evodevo.testing.evaluations.evaluators:act",
        "testing.allocate": "evodevo.testing.evaluations.evaluators:allocate",
        "testing.memory": "evodevo.testing.evaluations.evaluators:memory",
        "testing.allocate_at_once": "evodevo.testing.evaluations.evaluators:allocate_at_once",
        "testing.crash": "evodevo.testing.evaluations.evaluators:crash",
        "testing.describe": "evodevo.testing.evaluations.evaluators:describe",
        "testing.disturb": "evodevo.testing.evaluations.evaluators:disturb",
        "testing.echo": "evodevo.testing.evaluations.evaluators:echo",
        "testing.exit": "evodevo.testing.evaluations.evaluators:exit",
        "testing.fail": "evodevo.testing.evaluations.evaluators:fail",
        "testing.fork_grandchild": "evodevo.testing.evaluations.evaluators:fork_grandchild",
        "testing.hang": "evodevo.testing.evaluations.evaluators:hang",
        "testing.ignore_sigterm_and_hang": "evodevo.testing.evaluations.evaluators:ignore_sigterm_and_hang",
        "testing.kill_worker": "evodevo.testing.evaluations.evaluators:kill_worker",
        "testing.matmul": "evodevo.testing.evaluations.evaluators:matmul",
        "testing.nan": "evodevo.testing.evaluations.evaluators:nan",
        "testing.not_bytes": "evodevo.testing.evaluations.evaluators:not_bytes",
        "testing.pretend_device": "evodevo.testing.evaluations.pretended_device:pretend_device",
        "testing.print_a_lot": "evodevo.testing.evaluations.evaluators:print_a_lot",
        "testing.progress": "evodevo.testing.evaluations.evaluators:progress",
        "testing.sleep": "evodevo.testing.evaluations.evaluators:sleep",
        "testing.sleeping": "evodevo.testing.evaluations.sleeping:sleep",
        "testing.use_cuda": "evodevo.testing.evaluations.evaluators:use_cuda",
        "testing.use_scratch": "evodevo.testing.evaluations.evaluators:use_scratch",
    },
)
