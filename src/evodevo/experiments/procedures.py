"""How a network comes to be trained: once from scratch, or by a longer history.

A procedure is a function of a bench and of the arm's options::

    def train(bench: Bench, options: Mapping[str, Any]) -> Trained:
        network = bench.build()
        return Trained(network, bench.train(network))

To add one: write such a function (torch may be imported at its top, it is loaded in workers only), check its options
with a settings class of its own, and add a row here by name (and one in ``CHECKS``, so that wrong options are refused
before anything is trained). Then an ``ArmPlan`` of a recipe may name it. Rules:

- Every stage of training goes through ``bench.train``, in the same order at every call; it checkpoints, resumes,
  reports, and records the validation curve. After an interruption the procedure is called again from its beginning:
  stages that had ended give their recorded results at once (the network is then not trained; its weights come with
  the checkpoint of the stage that was cut short), and that stage goes on.
- What is measured or decided between stages goes through ``bench.once``, which records it with the checkpoints; what
  changes at every step of a stage (a policy) stands in ``bench.state``.
- Stages of a search say ``watched=False``: they must not see validation samples.
- What changes the network between stages (adding nodes, freezing) must be a function of recorded things and of seeds.
- A stage may pause (``until``) so that the network changes and then goes on: ``bench.carry`` says what moved,
  ``bench.recalls`` that the weights will come with a checkpoint, ``bench.spend`` what else was computed.
- The network that is returned is measured on validation and test, traced and kept. Facts for tables go into
  ``Trained.extra`` (JSON), curves into ``Trained.series``, further blobs (bytes) into ``Trained.blobs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from evodevo.registry import Registry, table

if TYPE_CHECKING:
    from evodevo.experiments.settings import NetworkEvaluationSettings
    from evodevo.experiments.trained import Trained
    from evodevo.experiments.trainer import Bench
    from evodevo.experiments.trials import Arm
    from evodevo.tasks.base import SampleTask

PROCEDURES: Registry[Procedure] = table("procedure", "evodevo.procedures")
PROCEDURES.add("train", "evodevo.experiments.trainer:train_once")

CHECKS: Registry[Check] = table("check of a procedure", "evodevo.procedure_checks")
"""Procedure -> what looks at an arm before anything is trained, without torch; it raises a UsageError or none."""

TASK_CHECKS: Registry[TaskCheck] = table("check of a procedure and its task", "evodevo.procedure_task_checks")
"""Likewise, for what depends on inputs and outputs."""


Procedure = Callable[["Bench", Mapping[str, Any]], "Trained"]
Check = Callable[["NetworkEvaluationSettings", "Arm"], None]
TaskCheck = Callable[["NetworkEvaluationSettings", "Arm", "SampleTask"], None]
