"""The procedures of training: once from scratch, or in several stages.

A procedure trains by a function of a bench and of the arm's options::

    def train(bench: Bench, options: Mapping[str, Any]) -> Trained:
        network = bench.build()
        return Trained(network, bench.train(network))

To add one: write such a function in a file of its own (torch may be imported at its top), and beside it, without torch,
a row: a subclass of ``Procedure`` whose ``train`` imports the function and whose ``check`` refuses wrong options before
anything is trained. Declare the row in the ``slice`` module of the room. Then an ``ArmPlan`` of a recipe may name it.
Rules:

- Every stage of training goes through ``bench.train``, in the same order at every call; it checkpoints, resumes,
  reports, and records the validation curve. After an interruption the procedure is called again from its beginning:
  stages that had ended give their recorded results at once (the network is then not trained; its weights come with
  the checkpoint of the stage that was cut short), and that stage goes on.
- What is measured or decided between stages goes through ``bench.once``, which records it with the checkpoints; what
  changes at every step of a stage (a policy) is kept in ``bench.state``.
- Stages of a search pass ``watched=False``: they must not see validation samples. What such a stage found may be shown
  by ``bench.tell``; the share of the budget in reports is that of all stages.
- What changes the network between stages (adding nodes, freezing) must be a function of recorded things and of seeds.
- A stage may pause (``until``) so that the network changes and then goes on: ``bench.carry`` records moved parameters,
``bench.recalls`` is true where the weights will come with a checkpoint, ``bench.spend`` adds FLOPs of other work. - The
network that is returned is measured on validation and test, traced and kept. Facts for tables go into
  ``Trained.extra`` (JSON), curves into ``Trained.series``, further blobs (bytes) into ``Trained.blobs``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evodevo.registry import Registry, table

if TYPE_CHECKING:
    from evodevo.experiments.report.parts import PagePart
    from evodevo.experiments.settings import NetworkEvaluationSettings
    from evodevo.experiments.trained import Trained
    from evodevo.experiments.trainer import Trainer
    from evodevo.experiments.trials import Trial
    from evodevo.networks.spec import NetworkSpec
    from evodevo.runs.archive import Individual
    from evodevo.tasks.base import SampleTask

PROCEDURES: Registry[Procedure] = table("procedure", "evodevo.procedures")
PROCEDURES.add("train", "evodevo.experiments.procedures:TRAIN")


class Procedure(ABC):
    """One row. Only ``train`` loads torch."""

    @abstractmethod
    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        """Train the network of an arm, in a worker; see the rules above."""

    def check(self, settings: NetworkEvaluationSettings, arm: Trial) -> None:  # noqa: B027 - optional
        """Check an arm before anything is trained.

        Raises:
            UsageError: wrong options, a budget that is too small, or a network that cannot be trained so.
        """

    def check_task(  # noqa: B027 - optional
        self, settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask
    ) -> None:
        """Likewise, where it depends on inputs and outputs of the task.

        Raises:
            UsageError: the task does not fit the options.
        """

    def network(self, individual: Individual) -> NetworkSpec:
        """The network of a training as it is kept."""
        network: NetworkSpec = individual.genome.network
        return network

    def words(self, individual: Individual) -> list[str]:
        """Sentences on a training beside its scores; none where there is nothing more."""
        return []

    def page_parts(self) -> Sequence[PagePart]:
        """Sections that it adds to the page of every experiment to which they apply."""
        return ()


class TrainedBy(Procedure):
    """A procedure without checks.

    Args:
        function: (bench, options) -> what it leaves.
    """

    def __init__(self, function: Callable[[Trainer, Mapping[str, Any]], Trained]) -> None:
        self.function = function

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        return self.function(bench, options)


class TrainOnce(Procedure):
    """Trained from scratch, in one stage."""

    def train(self, bench: Trainer, options: Mapping[str, Any]) -> Trained:
        from evodevo.experiments.trainer import train_once

        return train_once(bench, options)


TRAIN = TrainOnce()
