"""A scikit-learn classifier with a zoo that grows while it trains (Architect Thyself 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from evodevo.estimators.classifier import Classifier, Lesson
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import validate
from evodevo.tasks.base import Split

if TYPE_CHECKING:
    from evodevo.estimators.growth_record import GrowthRecord
    from evodevo.growth.edits import Replayed


DEFAULT_SECONDS = 60.0
"""Of a training for which neither a budget nor epochs are given."""


class GrowingClassifier(Classifier):
    """A classifier whose network is chosen and grows while it trains.

    By default the modules race, and no module with them: what learns most in a short training goes on, and a fork
    decides whether it gets maps of positions (``growth.recipes.growing.RACE_THEN_GROW``). With a strategist it begins
    with all of its modules. At events the strategist compares their fitness, on samples that are neither trained on nor
    used to choose weights, and prunes, grows, spawns or hybridises modules. ``X`` and ``y`` are as for
    ``ZooClassifier``.

    Args:
        width, network, learning_rate, batch_size, validation_fraction, text_length, dropout, plain, device,
            random_state: Same as for ``ZooClassifier``.
        modules: First modules; see ``ZooClassifier``.
        strategist: None to race, then grow; or the name of a strategist: ``fixed``, ``random``, ``heuristic``,
            ``reinforce``, ``ppo``, ``meta_gradient``, ``reinforce_meta``.
        events: Number of events, or any of ``EventSettings`` (``{"count": 4, "warm": 0.1}``); None for those of
            ``growth``.
        growth: Any other of ``growth.spec.GrowthSettings``, as plain data: ``{"birth": {"most": 12}}``.
        epochs: Number of epochs of training, where there is no budget; only with a strategist, as forks are charged in
            seconds or FLOPs.
        budget: Budget, any of ``training.settings.Budget``: ``{"steps": 500}``, ``{"flops": 2e12}``, ``{"seconds":
            60}``; the first that is reached ends the training. With seconds a fit cannot be repeated exactly. None:
            the epochs, or 60 seconds where there are none.
        architecture_fraction: Fraction of the samples (or groups) that only growth uses. Below 20 samples, and with
            fewer than three groups, growth uses training samples.
        patience: Number of points of the validation curve (epochs, or fiftieths of a budget) without improvement after
            which training stops, but never before the last event and the warm-up that it begins. None trains to the
            end.
        verbose: Whether lines are printed: for a rung of the race, a tenth of the training, an event; above 0.

    Attributes:
        classes_, n_features_in_, network_: Same as of ``ZooClassifier``.
        modules_: Ids of the modules at the end.
        zoo_: Final ``ZooStructure``: the modules' genotypes, their parents, the event of their birth.
        history_: Events as plain data: ``timeline``, ``edits``, ``rewards``, ``decisions``, ``differing``, and more
            that ``docs/growth.md`` lists.
        n_events_, n_births_, n_hybrids_, n_prunings_, n_refused_: Number of each; hybrids are births too.
        curve_: Points of the validation curve.
        metric_: Metric that chose the weights: ``auc``, ``accuracy``, ``loss``, or ``none``.
        best_step_, n_steps_: Step of these weights, and number of steps trained.
        comparison_, chosen_: The zoo beside plain models, and who answers; see ``Classifier``.
    """

    kept_format = "evodevo.growing_classifier/1"
    kept_facts = ("metric_", "best_step_", "n_steps_", "curve_", "history_", "comparison_", "chosen_")

    def __init__(
        self,
        *,
        width: int = 64,
        modules: str | Sequence[str] | Sequence[ZooModule] = "start",
        network: Mapping[str, Any] | None = None,
        strategist: str | None = None,
        events: int | Mapping[str, Any] | None = None,
        growth: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        budget: Mapping[str, float] | None = None,
        learning_rate: float = 2e-3,
        batch_size: int = 32,
        validation_fraction: float = 0.1,
        architecture_fraction: float = 0.2,
        patience: int | None = None,
        text_length: int = 64,
        dropout: float = 0.1,
        plain: str | bool = "best",
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.modules = modules
        self.network = network
        self.strategist = strategist
        self.events = events
        self.growth = growth
        self.epochs = epochs
        self.budget = budget
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.architecture_fraction = architecture_fraction
        self.patience = patience
        self.text_length = text_length
        self.dropout = dropout
        self.plain = plain
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def report(self) -> str:
        """The history of the zoo, one line per edit, and how it is beside plain models, as text."""
        from evodevo.estimators.growth_record import summary_text

        check_is_fitted(self)
        text = summary_text(self.history_, self.modules_)
        return text if self.comparison_ is None else f"{text}\n{self.verdict_}"

    def replay(self) -> Replayed:
        """Rebuild every genotype, and the first weights of every newborn, from the log of the edits.

        Returns:
            ``modules``, which are those of ``zoo_``, and ``newborns``: id -> first weights.

        Raises:
            DataError: The log does not fit itself, its weights, or the zoo.
        """
        check_is_fitted(self)
        return self._record.replay(self.zoo_)

    @property
    def zoo_(self) -> ZooStructure:
        """See the class."""
        check_is_fitted(self)
        return self.network_.structure

    @property
    def n_events_(self) -> int:
        """See the class."""
        check_is_fitted(self)
        return len(self.history_["timeline"])

    @property
    def n_births_(self) -> int:
        """See the class."""
        return self._edits("grow", "spawn", "hybridise")

    @property
    def n_hybrids_(self) -> int:
        """See the class."""
        return self._edits("hybridise")

    @property
    def n_prunings_(self) -> int:
        """See the class."""
        return self._edits("prune")

    @property
    def n_refused_(self) -> int:
        """See the class."""
        check_is_fitted(self)
        return sum(edit["module"] is None for edit in self.history_["edits"])

    def _edits(self, *operations: str) -> int:
        check_is_fitted(self)
        done = [edit for edit in self.history_["edits"] if edit["module"] is not None]
        return sum(edit["action"]["operation"] in operations for edit in done)

    def _divided(self, lesson: Lesson) -> dict[Split, NDArray[np.int64]]:
        from evodevo.estimators.fitting import divided

        return divided(lesson.answers, lesson.groups, self.validation_fraction, self.architecture_fraction)

    def _seconds(self) -> float | None:
        budget = self._budget
        return None if budget is None else budget.get("seconds")

    @property
    def _budget(self) -> Mapping[str, float] | None:
        """The budget; None where there are epochs in its place."""
        return {"seconds": DEFAULT_SECONDS} if self.budget is None and self.epochs is None else self.budget

    def _train(self, lesson: Lesson, places: Mapping[Split, NDArray[np.int64]]) -> None:
        from evodevo.estimators.growing.fit import grow
        from evodevo.estimators.growing.plan import GrowingPlan, growth_settings
        from evodevo.estimators.growth_record import GrowthRecord

        values = {
            "epochs": 1 if self.epochs is None else self.epochs,
            "budget": None if self._budget is None else dict(self._budget),
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
            "patience": self.patience,
            "device": self.device,
            "verbose": bool(self.verbose),
            "watched": bool(len(places["validation"])),
        }
        plan = validate(GrowingPlan, values, what="GrowingClassifier")
        task = lesson.task({split: rows if len(rows) else places["train"] for split, rows in places.items()})
        settings = growth_settings(self.strategist, self.events, self.growth)
        grown = grow(self._structure(lesson.seed), task, settings, plan, lesson.seed)
        self._take(lesson.reading, lesson.targets, grown.network)
        self.history_ = grown.facts
        self.curve_ = grown.curve
        self.metric_ = grown.metric
        self.best_step_ = grown.best_step
        self.n_steps_ = grown.steps
        self._record: GrowthRecord = GrowthRecord(grown.log, grown.parents, grown.memory)

    def _more_files(self) -> dict[str, bytes]:
        return {**super()._more_files(), **self._record.files()}

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        from evodevo.estimators.growth_record import GrowthRecord
        from evodevo.estimators.plain_models import FILES

        super()._take_files(files)
        self._record = GrowthRecord.of_files({name: data for name, data in files.items() if name not in FILES})
