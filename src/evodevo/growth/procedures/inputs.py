"""What a growth begins with beside its network: its surroundings, and what earlier runs left: edits and a policy."""

from __future__ import annotations

from evodevo.experiments.trainer import Trainer
from evodevo.growth.events.surroundings import Surroundings
from evodevo.growth.growable import GrowingNetwork, TaskSizes
from evodevo.growth.latency import LatencyTable
from evodevo.growth.procedures.samples import GrowthSamples
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.memory_of_policy import PolicyMemory
from evodevo.settings import validate
from evodevo.storage.blobs import BlobPool


def surroundings_of(
    bench: Trainer, samples: GrowthSamples, settings: GrowthSettings, zoo: GrowingNetwork, blobs: BlobPool
) -> Surroundings:
    """The context in which the network of a run grows."""
    size, task = bench.training.batch_size, samples.task
    table = _latencies(bench, samples, zoo) if settings.caps.measured else None
    return Surroundings(
        task=TaskSizes(task.inputs, task.outputs, batch=size, table=table),
        probed=samples.probed,
        distillation_batch=samples.lesson,
        precision=bench.precision,
        blobs=blobs,
        batch_size=size,
        in_flops=bench.training.budget.flops is not None,
    )


def edits_of_earlier_runs(settings: GrowthSettings, blobs: BlobPool) -> EditMemory | None:
    """The memory of edits that the settings name; None where they name none."""
    digest = settings.edit_memory
    if digest is None:
        return None
    return EditMemory.loads(blobs.get(digest).decode(), what=f"the memory of edits {digest[:12]}")


def policy_of_earlier_run(settings: GrowthSettings, blobs: BlobPool) -> PolicyMemory | None:
    """The policy that the settings name, and from which the strategist goes on; None for one that begins anew."""
    digest = settings.policy_memory
    if digest is None or not (settings.memory and settings.policy.memory.continues):
        return None
    return PolicyMemory.loads(blobs.get(digest), what=f"the policy {digest[:12]}")


def _latencies(bench: Trainer, samples: GrowthSamples, zoo: GrowingNetwork) -> LatencyTable:
    """The table of latencies, measured once in a run."""
    batch = samples.first_batch()
    facts = bench.once("latency", lambda: zoo.calibrate(batch).model_dump(mode="json"))
    return validate(LatencyTable, facts, what="a table of latencies")
