"""Evaluators that misbehave on purpose, for the conformance suite of executors; workers find them by name."""

from evodevo.registry import declare

declare(
    "evodevo.evaluators",
    {
        "testing.abort": "evodevo.testing.evaluators:abort",
        "testing.act": "evodevo.testing.evaluators:act",
        "testing.allocate": "evodevo.testing.evaluators:allocate",
        "testing.memory": "evodevo.testing.evaluators:memory",
        "testing.allocate_at_once": "evodevo.testing.evaluators:allocate_at_once",
        "testing.crash": "evodevo.testing.evaluators:crash",
        "testing.describe": "evodevo.testing.evaluators:describe",
        "testing.disturb": "evodevo.testing.evaluators:disturb",
        "testing.echo": "evodevo.testing.evaluators:echo",
        "testing.exit": "evodevo.testing.evaluators:exit",
        "testing.fail": "evodevo.testing.evaluators:fail",
        "testing.fork_grandchild": "evodevo.testing.evaluators:fork_grandchild",
        "testing.hang": "evodevo.testing.evaluators:hang",
        "testing.ignore_sigterm_and_hang": "evodevo.testing.evaluators:ignore_sigterm_and_hang",
        "testing.kill_worker": "evodevo.testing.evaluators:kill_worker",
        "testing.matmul": "evodevo.testing.evaluators:matmul",
        "testing.nan": "evodevo.testing.evaluators:nan",
        "testing.not_bytes": "evodevo.testing.evaluators:not_bytes",
        "testing.pretend_device": "evodevo.testing.pretended_device:pretend_device",
        "testing.print_a_lot": "evodevo.testing.evaluators:print_a_lot",
        "testing.progress": "evodevo.testing.evaluators:progress",
        "testing.sleep": "evodevo.testing.evaluators:sleep",
        "testing.sleeping": "evodevo.testing.sleeping:sleep",
        "testing.use_cuda": "evodevo.testing.evaluators:use_cuda",
        "testing.use_scratch": "evodevo.testing.evaluators:use_scratch",
    },
)
