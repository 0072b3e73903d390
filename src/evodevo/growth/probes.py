"""The effects of each module of a zoo, measured on samples of the split ``architecture`` (eqs. 19, 66 to 68, 70, 91).

Source: docs/spec/architect_thyself.md#probes.

Modules run once. Everything else repeats router, mixture and heads alone on their outputs, so that leaving out each
of N modules costs N small passes and not N networks; ``benchmarks/zoo_leave_one_out.py`` measures that. Probes route
without top-K (``dense``): a module that is never among the K would otherwise have no impact, and masking one of K
would hide the effect of the module that replaces it.

Legend: S samples, B of them at once, N modules, d width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import DataError
from evodevo.growth.benefit import ClassMembers, benefit_bound
from evodevo.growth.metrics import Tally
from evodevo.growth.pairwise import Pairs
from evodevo.growth.spec import FitnessSettings
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.vector import genotype_distance
from evodevo.module_zoo.router import losses as module_losses
from evodevo.module_zoo.router.base import RouterOutput
from evodevo.module_zoo.router.relations import Relations
from evodevo.networks.base import Batch
from evodevo.networks.routing.gates import widened

TINY = 1e-12


@dataclass(frozen=True)
class ModuleProbe:
    """Measurements of one probe; nothing depends on the order of modules.

    Attributes:
        ids: Ids of the live modules.
        samples: Number of samples, S.
        loss: Loss of the zoo with its own routing, top-K included, in nats (mean over outputs).
        accuracy: Share of samples that are right in every output with a target, and in every label of it, 0 to 1.
        dense_loss: Loss without top-K, in nats.
        uniform_loss: Loss under equal weights of all modules, in nats; the baseline of Algorithm 1.
        entropy: Entropy of the dense router weights, in nats, mean over samples (Algorithm 2).
        usage: Mean router weight under the zoo's own routing, by id (66).
        impact: Loss without the module minus ``dense_loss``, in nats, by id (68, 91).
        advantage: Mean of alpha (loss under equal weights - loss), by id (Algorithm 1, line 16).
        alone: (S',) by id: whether the answer is right with this module alone, at weight 1, on samples with a target.
        genotype_distance: Gower distance of genotypes, in [0, 2].
        output_distance: Mean ||u_i - u_j|| divided by mean ||u_i|| + ||u_j||, in [0, 1].
        benefit: Upper bound of what the module brings, in points of accuracy, by id (``growth.benefit``).
    """

    ids: tuple[str, ...]
    samples: int
    loss: float
    accuracy: float
    dense_loss: float
    uniform_loss: float
    entropy: float
    usage: dict[str, float]
    impact: dict[str, float]
    advantage: dict[str, float]
    alone: dict[str, NDArray[np.bool_]]
    genotype_distance: Pairs
    output_distance: Pairs
    benefit: dict[str, float] = field(default_factory=dict)


@torch.no_grad()
def probe(zoo: ModuleZoo, batches: Iterable[Batch], settings: FitnessSettings) -> ModuleProbe:
    """Measure all live modules; the zoo keeps its mode, and no random number is drawn.

    Args:
        zoo: Zoo to measure.
        batches: Batches of the split ``architecture``, on the zoo's device; each is passed once.
        settings: ``ablation`` chooses what leaving out means.

    Raises:
        DataError: No sample, or none with a target.
        UsageError: A batch lacks an output's target.
    """
    was_training = zoo.training
    zoo.eval()
    try:
        ids = zoo.live
        sums = _ZooSums(zoo, ids)
        for batch in batches:
            sums.add(batch, zero=settings.ablation == "zero")
    finally:
        zoo.train(was_training)
    return sums.probe()


def everything(zoo: ModuleZoo, batch: Batch) -> tuple[Tensor, Tensor, RouterOutput, dict[str, Tensor]]:
    """Run every live module once.

    Returns:
        f (B, d); u (B, N, d), also of modules that the zoo's routing skipped; the routing decision and the logits.
    """
    passage = zoo.consult(zoo.fuse(batch))
    outputs = passage.outputs
    # Probes route without top-K, and so need the outputs of all modules.
    if not bool(passage.executed.all()):
        tokens, mask = zoo.readable(passage.inputs.fused)
        outputs = outputs + zoo.pool(passage.ids, tokens, mask, ~passage.executed)
    return passage.inputs.fused.vector, outputs, passage.decision, passage.answers


def relate(zoo: ModuleZoo, f: Tensor, outputs: Tensor, ids: tuple[str, ...]) -> Relations:
    """The router's relations of all modules, before it compares them.

    Args:
        zoo: Zoo with the router.
        f: Fused input, (B, d).
        outputs: Module outputs u, (B, N, d).
        ids: Ids of the N modules.
    """
    keys = outputs if zoo.genotype_keys is None else zoo.genotype_keys(ids).unsqueeze(0)
    return zoo.router.relate(f, keys)


def answers(zoo: ModuleZoo, f: Tensor, outputs: Tensor, decision: RouterOutput) -> dict[str, Tensor]:
    """Logits by output for a routing decision over module outputs."""
    return zoo.answer(zoo.router.mix(decision, outputs, f))


def without_each(
    zoo: ModuleZoo, f: Tensor, voices: Tensor, relations: Relations, ids: tuple[str, ...]
) -> Iterator[dict[str, Tensor]]:
    """Logits of the zoo without one module: logits, synergy and gate are computed without it (91).

    One set after the other, in the order of the modules. In a zoo of one module its weight is 0.

    Args:
        zoo: Zoo as it is.
        f: Fused input, (B, d).
        voices: Module values that the router's mixture reads, (B, N, d).
        relations: Result of ``relate``.
        ids: Ids of the N modules.
    """
    if len(ids) == 1:
        silence = torch.zeros_like(zoo.decide(f, relations, ids, dense=True).head_weights)
        yield zoo.answer(zoo.router.mix_voices(silence, voices, f))
        return
    for place, rest in enumerate(zoo.router.each_left_out(relations)):
        known = zoo.decide(f, rest, ids[:place] + ids[place + 1 :], dense=True).head_weights
        # A weight of 0 is cheaper than another tensor of values.
        weights = torch.cat([known[..., :place], torch.zeros_like(known[..., :1]), known[..., place:]], -1)
        yield zoo.answer(zoo.router.mix_voices(weights, voices, f))


def silenced(zoo: ModuleZoo, f: Tensor, outputs: Tensor, ids: tuple[str, ...], place: int) -> dict[str, Tensor]:
    """Logits with the output of one module replaced by 0 (67).

    Args:
        zoo: Zoo as it is.
        f: Fused input, (B, d).
        outputs: Module outputs u, (B, N, d).
        ids: Ids of the N modules.
        place: Index of that module, 0 to N - 1.
    """
    others = outputs.clone()
    others[:, place] = 0
    return answers(zoo, f, others, zoo.decide(f, relate(zoo, f, others, ids), ids, dense=True))


class _ZooSums:
    """Running sums over batches."""

    def __init__(self, zoo: ModuleZoo, ids: tuple[str, ...]) -> None:
        self.zoo = zoo
        self.ids = ids
        self.samples = 0
        self.routed, self.dense, self.uniform = (Tally(zoo.output_specs) for _ in range(3))
        self.left_out = {name: Tally(zoo.output_specs) for name in ids}
        self.alone = {name: Tally(zoo.output_specs) for name in ids}
        self.classes = ClassMembers(zoo.output_specs)
        count = len(ids)
        self.usage = torch.zeros(count, dtype=torch.float64)
        self.advantage = torch.zeros(count, dtype=torch.float64)
        self.entropy = 0.0
        self.distance = torch.zeros(count, count, dtype=torch.float64)
        self.norm = torch.zeros(count, dtype=torch.float64)

    def add(self, batch: Batch, *, zero: bool) -> None:
        zoo, ids = self.zoo, self.ids
        f, outputs, routed, logits = everything(zoo, batch)
        self.samples += f.shape[0]
        self.routed.add(logits, batch)
        self.classes.add(batch)
        self.usage += _sum(routed.weights)
        relations, voices = relate(zoo, f, outputs, ids), zoo.router.voices(outputs)
        decision = zoo.decide(f, relations, ids, dense=True)
        each = self.dense.add(answers(zoo, f, outputs, decision), batch)
        even = torch.full_like(decision.head_weights, 1 / len(ids))
        alike = self.uniform.add(answers(zoo, f, outputs, replace(decision, head_weights=even)), batch)
        self.advantage += _sum(decision.weights * (alike - each).unsqueeze(1))
        weights = decision.weights
        self.entropy += float(-(weights * weights.clamp(min=module_losses.TINY).log()).sum())
        left_out = without_each(zoo, f, voices, relations, ids)
        if zero:
            left_out = (silenced(zoo, f, outputs, ids, place) for place in range(len(ids)))
        for name, logits_left in zip(ids, left_out, strict=True):
            self.left_out[name].add(logits_left, batch)
        for place, name in enumerate(ids):
            alone = torch.ones_like(decision.head_weights[..., :1])
            said_alone = zoo.answer(zoo.router.mix_voices(alone, voices[:, place : place + 1], f))
            self.alone[name].add(said_alone, batch)
        wide = widened(outputs)
        self.distance += _sum(torch.cdist(wide, wide, compute_mode=EXACT))
        self.norm += _sum(wide.norm(dim=-1))

    def probe(self) -> ModuleProbe:
        if not self.samples:
            raise DataError("a probe needs at least one sample of the split 'architecture'; it got none.")
        ids, count = self.ids, self.samples
        dense = self.dense.loss()
        genotypes = {module.id: module.genotype for module in self.zoo.structure.modules}
        lengths = (self.norm.unsqueeze(0) + self.norm.unsqueeze(1)).clamp(min=TINY)
        return ModuleProbe(
            ids=ids,
            samples=count,
            loss=self.routed.loss(),
            accuracy=float(self.routed.right().mean()),
            dense_loss=dense,
            uniform_loss=self.uniform.loss(),
            entropy=self.entropy / count,
            usage=_by_id(ids, self.usage / count),
            impact={name: self.left_out[name].loss() - dense for name in ids},
            advantage=_by_id(ids, self.advantage / count),
            alone={name: self.alone[name].right() for name in ids},
            genotype_distance=Pairs.of_each(ids, lambda a, b: genotype_distance(genotypes[a], genotypes[b])),
            output_distance=Pairs(ids, (self.distance / lengths).numpy()),
            benefit=benefits(self.dense, self.left_out, self.classes),
        )


def benefits(dense: Tally, left_out: Mapping[str, Tally], classes: ClassMembers) -> dict[str, float]:
    """Id -> ``benefit_bound``, from the answers with all modules and without each."""
    right, members = dense.right(), classes.members()
    return {name: benefit_bound(right, without.right(), members) for name, without in left_out.items()}


EXACT = "donot_use_mm_for_euclid_dist"
"""The faster matrix products would give equal outputs a distance above 0."""


def _sum(values: Tensor) -> Tensor:
    """Sum over samples, in float64 on the CPU."""
    return values.double().sum(0).cpu()


def _by_id(ids: Sequence[str], values: Tensor) -> dict[str, float]:
    return dict(zip(ids, values.tolist(), strict=True))
