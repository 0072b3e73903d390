"""The policies that the trainings of a run left, and the arms of the next run that go on from them.

Source: docs/spec/architect_thyself.md#edit-memory.

A policy is that of one training: policies of several seeds are no policy when averaged. Of a run the first training of
a strategist counts, whatever it scored, so that nothing is selected; all seeds of the next run begin with that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evodevo.errors import NotFoundError, StoreDamagedError, UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.growth.recipes.growing import growth_of_arm, strategist_of
from evodevo.growth.strategists.settings import settings_for
from evodevo.runs.archive import Individual

ROLE = "policy_memory"
"""Role of the blob of a growth, and first part of the role, before the strategist's name, of a run's own blobs."""


def policies_of(trainings: Iterable[tuple[str, Individual]]) -> dict[str, bytes]:
    """Strategist -> the file of its policy (``strategists.memory_of_policy``), of the first training that left one.

    Args:
        trainings: Strategist and training, in the order of the trainings.

    Raises:
        StoreDamagedError: A policy is missing in the store, or is not what was written.
    """
    policies: dict[str, bytes] = {}
    for strategist, individual in trainings:
        digest = None if individual.evaluation is None else individual.evaluation.blobs.get(ROLE)
        if strategist in policies or digest is None:
            continue
        try:
            policies[strategist] = individual.run.archive.store.blobs.get(digest)
        except NotFoundError:
            raise StoreDamagedError(
                f"the policy of {individual.id} is not in the store. Next: evodevo repair."
            ) from None
    return policies


def check_policies(settings: ExperimentSettings, policies: Mapping[str, bytes]) -> None:
    """Refuse policies from which the arms cannot go on, before anything is recorded.

    Raises:
        UsageError: Another version, another strategist, or another shape, such as another ``policy.learning.width``.
        UnsafeFileError: A damaged file.
    """
    for arm in settings.experiment.arms:
        name = strategist_of(settings.evaluation, arm)
        if name is None or name not in policies:
            continue
        growth = growth_of_arm(settings.evaluation, arm)
        if not (growth.memory and growth.policy.memory.continues):
            continue
        # Torch is loaded where there is something to check.
        from evodevo.growth.strategists.base import create
        from evodevo.growth.strategists.memory_of_policy import PolicyMemory

        memory = PolicyMemory.loads(policies[name], what=f"the policy of {name} in the memory")
        memory.check(name)
        try:
            create(name, settings=settings_for(growth)).load_state_dict(memory.state)
        except UsageError as error:
            raise UsageError(
                f"{arm.name} cannot go on from the policy in the memory: {error} Give it the settings of then, or "
                "begin anew from the edits: --set grow.policy.memory.continues=false."
            ) from None
