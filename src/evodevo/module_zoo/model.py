"""A multimodal network with a zoo of modules and a router that decides per sample (Architect Thyself 3.1 to 3.4).

Encoders read each modality, fusion makes one sequence F and one vector f of them, every module answers u = m(F), and
the router mixes the outputs of the modules into z_r, from which the heads answer. Read ``ModuleZoo.passage``.

Legend: B samples, L positions of F, d width, N live modules, K modules that a sample may use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError, unknown_name
from evodevo.experiments.measure import places
from evodevo.module_zoo.cost import positions_read, zoo_reads
from evodevo.module_zoo.encoders.alignment import Alignment, numbered
from evodevo.module_zoo.encoders.fusion import Fused, Fusion
from evodevo.module_zoo.encoders.model import EncodedModality, Senses
from evodevo.module_zoo.encoders.spec import read_inputs
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.pool import ModulePool
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.vector import genotype_vector
from evodevo.module_zoo.readout import Readout
from evodevo.module_zoo.router import losses as module_losses
from evodevo.module_zoo.router.base import RouterOutput
from evodevo.module_zoo.router.others import GenotypeKeys, RouterPredictor, build_router, chosen
from evodevo.module_zoo.router.relations import Relations
from evodevo.module_zoo.router.report import zoo_routing
from evodevo.module_zoo.spec import ZooStructure
from evodevo.module_zoo.statistics import ZooStatistics
from evodevo.networks.base import Batch, Diagnosis, Explained, Network, Representation
from evodevo.networks.newborns import newborns, read_newborns
from evodevo.networks.outputs import OutputHeads
from evodevo.networks.routing.losses import z_loss
from evodevo.networks.routing.pools import masked_mean
from evodevo.randomness import integer_seed
from evodevo.tasks.base import MATCHED, OutputSpec, SampleTask
from evodevo.tasks.inputs import InputSpec
from evodevo.training.precision import Precision

MATCH, MATCHES = "match", "yes"
"""The output that predicts whether image and text belong together, and its class where they do."""
ROUTED = 1000
"""Number of samples whose routing is reported."""


@dataclass(frozen=True)
class ModuleInput:
    """The input of the modules.

    Attributes:
        sides: image side and text side, None where the task has none.
        fused: F and f.
    """

    sides: tuple[EncodedModality | None, EncodedModality | None]
    fused: Fused


@dataclass(frozen=True)
class Passage:
    """One pass, with everything that losses, probes and pictures read.

    Attributes:
        inputs: input of the modules.
        ids: ids of the modules, in the order of N.
        outputs: u, (B, N, d); 0 where a module was not run.
        decision: decision of the router.
        predicted: (B, N) logits of the predictor, where there is one.
        executed: (B, N), true where the module was run on the sample.
        mixed: z_r, (B, d).
        answers: output -> logits.
    """

    inputs: ModuleInput
    ids: tuple[str, ...]
    outputs: Tensor
    decision: RouterOutput
    predicted: Tensor | None
    executed: Tensor
    mixed: Tensor
    answers: dict[str, Tensor]


class ModuleZoo(Network):
    """A zoo over the inputs and outputs of a task.

    Args:
        structure: everything but inputs and outputs.
        inputs, outputs: inputs and outputs of the task; outputs are classes and labels.

    Attributes:
        structure: the structure as given.
        active: ids of the modules that run and count; None for all that are not disabled. A search sets it.
        births: id of a newborn -> its birth factor in [0, 1] (``router/births.py``); 1 for ids without an entry.
        twins: id of a newborn -> id of the module whose weight it shares while its factor is below 1.
        beside: whether newborns are added beside the gate until they are warm, or join it little by little.
        newborn_rates: id -> factor of its learning rate.

    Raises:
        UsageError: no module, or an output of tokens.
    """

    structure: ZooStructure
    untraced = (
        "{name} is a zoo of modules, whose modules are not connected to each other. See the weights of its router: "
        "evodevo show {name} --svg zoo.svg"
    )

    def __init__(self, structure: ZooStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> None:
        super().__init__(inputs, outputs)
        if not structure.live:
            raise UsageError("a zoo needs at least one module that is not disabled; see zoo_archetypes.start_zoo.")
        if any(spec.kind == "tokens" for spec in outputs):
            raise UsageError("a zoo answers with classes and labels; it does not predict tokens.")
        self.structure = structure
        router = structure.router
        ids = tuple(module.id for module in structure.modules)
        self.senses = Senses(
            structure,
            structure.statistics,
            read_inputs(structure.without, inputs),
            modality_dropout=structure.modality_dropout,
            reads=zoo_reads(structure, inputs),
        )
        two_sided = all(self.senses.sides)
        self.fusion = Fusion(structure.width, structure.fusion) if two_sided else None
        losses = structure.losses
        self.alignment = (
            Alignment(losses.align_temperature, both=losses.align_both) if two_sided and losses.align else None
        )
        self.chunk = (
            nn.Linear(structure.width // structure.chunks, structure.width) if structure.mode == "vector" else None
        )
        self.pool = ModulePool(
            structure.modules, structure.width, structure.pool, positions_read(structure, inputs) or 0
        )
        self.router = build_router(structure.width, router, ids)
        vectors = {module.id: genotype_vector(module.genotype) for module in structure.modules}
        keys = router.keys if router.kind == "graph_attention" else "output"
        self.genotype_keys = GenotypeKeys(structure.width, vectors) if keys == "genotype" else None
        self.predictor = RouterPredictor(structure.width, router, ids) if keys == "predictor" else None
        self.statistics = ZooStatistics(ids, structure.contribution)
        self.heads = OutputHeads(outputs, structure.width)
        # After all others, so that a zoo without it begins with the same weights.
        self.readout = Readout(structure.width, structure.readout) if structure.readout else None
        self._parameters_of = {module.id: genotype_parameters(module.genotype) for module in structure.modules}
        self.births: dict[str, float] = {}
        self.twins: dict[str, str] = {}
        self.beside = False
        self.newborn_rates: dict[str, float] = {}
        self._active: frozenset[str] | None = None
        self._progress = 0.0
        self._used: tuple[tuple[str, ...], Tensor] | None = None

    # What may be set

    @property
    def active(self) -> frozenset[str] | None:
        """See the class."""
        return self._active

    @active.setter
    def active(self, ids: Sequence[str] | frozenset[str] | None) -> None:
        known = [module.id for module in self.structure.live]
        for name in ids or ():
            if name not in known:
                raise unknown_name("module", name, known)
        if ids is not None and not ids:
            raise UsageError("a zoo needs at least one active module.")
        self._active = None if ids is None else frozenset(ids)

    @property
    def live(self) -> tuple[str, ...]:
        """Ids of the modules that run and count, in order."""
        return tuple(module.id for module in self.structure.live if self._active is None or module.id in self._active)

    @property
    def top_k(self) -> int | None:
        """K, where fewer than all modules may count."""
        limit = self.structure.router.top_k
        return limit if limit is not None and limit < len(self.live) else None

    def set_progress(self, share: float) -> None:
        """See ``Network``; the entropy term fades along it."""
        self._progress = share

    @property
    def progress(self) -> float:
        """Share of the budget that the step which is made now uses up; of the last one between two."""
        return self._progress

    def learning_rates(self) -> dict[str, float]:
        """See ``Network``: towers and newborns learn at rates of their own."""
        towers = {f"senses.{name}": factor for name, factor in self.senses.learning_rates().items()}
        # A module may have no parameter: one that passes on what it reads, or a sum.
        learning = {
            name: factor for name, factor in self.newborn_rates.items() if [*self.pool.parts[name].parameters()]
        }
        return towers | {f"pool.parts.{name}.": factor for name, factor in learning.items()}

    # Growing

    def insert(
        self, module: ZooModule, *, state: Mapping[str, Tensor] | None = None, twin_of: str | None = None
    ) -> None:
        """Let a module in, at the end. Random numbers come from its seed alone, and the global stream stays as it was.

        It counts like every other from now on: set its birth factor to 0 first to give it no weight. Parameters are new
        and must be added to the optimiser.

        Args:
            module: a module of this zoo's width.
            state: weights that it begins with, as ``zoo_birth.inherit`` makes them on the CPU; its own fresh ones
                where it is left out.
            twin_of: the module that it is a copy of. Its contribution is inherited, and its weight shared.

        Raises:
            UsageError: the id is taken or a word of PyTorch, the width is another, or there is no such twin.
            RuntimeError: weights of another module.
        """
        name, ids = module.id, [other.id for other in self.structure.modules]
        if name in ids:
            raise UsageError(f"there is a module {name!r} already; ids are for ever, take another.")
        if module.genotype.width != self.structure.width:
            raise UsageError(
                f"the module {name!r} is made for width {module.genotype.width}, the zoo has {self.structure.width}."
            )
        if twin_of is not None and twin_of not in ids:
            raise unknown_name("module", twin_of, ids)
        like = next(self.parameters())
        self.pool.insert(module)
        try:
            if state is not None:
                self.pool.parts[name].load_state_dict(dict(state))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(integer_seed(module.seed, "router"))
                self.router.insert(name)
                if self.predictor is not None:
                    self.predictor.rows.insert(name)
                if self.genotype_keys is not None:
                    self.genotype_keys.insert(name, genotype_vector(module.genotype))
        except (UsageError, RuntimeError):
            self.pool.remove(name)  # a word of PyTorch for rows alone, which the first of them refuses
            raise
        self.pool.parts[name].to(like.device, like.dtype).train(self.training)
        self.statistics.insert(name, like=twin_of)
        self._parameters_of[name] = genotype_parameters(module.genotype)
        self.structure = self.structure.model_copy(update={"modules": (*self.structure.modules, module)})
        if self._active is not None:
            self._active |= {name}
        if twin_of is not None:
            self.twins[name] = twin_of

    def exchange(self, name: str, genotype: ModuleGenotype, *, state: Mapping[str, Tensor] | None = None) -> None:
        """Give a module another architecture at its place. Its id, its router weights and its statistics stay.

        Args:
            name: a module of this zoo.
            genotype: its new genotype, of this zoo's width.
            state: its weights; fresh ones from its seed where they are left out.

        Raises:
            UsageError: there is none of that id, or the width is another.
            RuntimeError: weights of another module; the zoo is then as it was.
        """
        modules = {module.id: module for module in self.structure.modules}
        if name not in modules:
            raise unknown_name("module", name, list(modules))
        if genotype.width != self.structure.width:
            raise UsageError(f"a module of width {genotype.width} does not fit a zoo of {self.structure.width}.")
        like = next(self.parameters())
        self.pool.exchange(modules[name].model_copy(update={"genotype": genotype}), like, state)
        self.pool.parts[name].train(self.training)
        if self.genotype_keys is not None:
            self.genotype_keys.exchange(name, genotype_vector(genotype))
        self._parameters_of[name] = genotype_parameters(genotype)
        modules[name] = modules[name].model_copy(update={"genotype": genotype})
        self.structure = self.structure.model_copy(update={"modules": tuple(modules.values())})

    def remove(self, name: str) -> None:
        """Let a module go, and forget all about it.

        Raises:
            UsageError: there is none of that id, or no module would be left.
        """
        modules = self.structure.modules
        if name not in (other.id for other in modules):
            raise unknown_name("module", name, [other.id for other in modules])
        if set(self.live) <= {name}:
            raise UsageError(f"{name!r} is the last module that is live; a zoo needs at least one.")
        self.pool.remove(name)
        self.router.remove(name)
        if self.predictor is not None:
            self.predictor.rows.remove(name)
        if self.genotype_keys is not None:
            self.genotype_keys.remove(name)
        self.statistics.remove(name)
        del self._parameters_of[name]
        self.births.pop(name, None)
        self.newborn_rates.pop(name, None)
        self.twins = {child: parent for child, parent in self.twins.items() if name not in (child, parent)}
        self.structure = self.structure.model_copy(
            update={
                "modules": tuple(other for other in modules if other.id != name),
                "disabled": tuple(disabled for disabled in self.structure.disabled if disabled != name),
            }
        )
        if self._active is not None:
            self._active -= {name}
        self._used = None  # of a step in which it took part

    def map_positions(self) -> None:
        """Pool by a learned map of each position in place of the mean; no output changes (``pool=positions``).

        Raises:
            UsageError: the pooling is not the mean, or the number of positions is not known.
        """
        like = next(self.parameters())
        self.pool.map_positions(like.new_empty(self.structure.width))
        self.structure = self.structure.model_copy(update={"pool": "positions"})

    def add_readout(self, hidden: int, seed: int) -> None:
        """Put a layer of so many hidden units before the heads, drawn from the seed; no output changes.

        Raises:
            UsageError: there is one.
        """
        if self.readout is not None:
            raise UsageError(f"there is a layer of {self.structure.readout} units before the heads already.")
        like = next(self.parameters())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.readout = Readout(self.structure.width, hidden).to(like.device, like.dtype).train(self.training)
        self.structure = self.structure.model_copy(update={"readout": hidden})

    def state_extras(self) -> dict[str, Any]:
        """See ``Network``: modules that are half born."""
        return newborns(self.births, self.twins, beside=self.beside)

    def take_state_extras(self, extras: Mapping[str, Any]) -> None:
        """See ``Network``."""
        self.births, self.twins, self.beside = read_newborns(extras)

    # Looking inside

    def explain(self, batch: Batch) -> Explained:
        """See ``Network``: how much each module counted, and which were run."""
        passage = self.passage(batch)
        return Explained(passage.answers, passage.ids, passage.decision.weights, passage.executed)

    def diagnose(self, before: Network, task: SampleTask, precision: Precision, *, fact: str | None) -> Diagnosis:
        """Routing of the network: mean weights, the numbers of modules with a weight and of modules that are run; see
        ``Network``."""
        routing = zoo_routing(self, task, "validation", places(task, "validation", ROUTED), precision)
        numbers = {
            "effective modules": routing["effective"],
            "modules with weight": routing["support"],
            "modules run": routing["run"],
        }
        return Diagnosis(numbers, {"routing": routing})

    # Passes

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        return self.passage(batch).answers

    def unrepresented(self) -> tuple[str, ...]:
        """See ``Network``."""
        return ("heads", "alignment")

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``: F, and z_r as its summary."""
        passage = self.passage(batch)
        return Representation(passage.inputs.fused.tokens, passage.inputs.fused.mask, passage.mixed)

    def passage(self, batch: Batch) -> Passage:
        """The whole pass."""
        return self.consult(self.fuse(batch))

    def fuse(self, batch: Batch) -> ModuleInput:
        """Input of the modules: each modality, and both together. One modality passes as it is."""
        image, text = self.senses(batch)
        if self.fusion is not None and image is not None and text is not None:
            return ModuleInput((image, text), self.fusion(image, text))
        alone = image if image is not None else text
        assert alone is not None, "senses have one side at least"
        return ModuleInput((image, text), Fused(alone.tokens, alone.mask, masked_mean(alone.tokens, alone.mask)))

    def consult(self, inputs: ModuleInput) -> Passage:
        """Modules, router and heads.

        While training every module runs. In evaluation, keys from outputs need them all, too; keys from genotypes and
        the predictor decide first, and modules that were not chosen for a sample are not run on it.
        """
        tokens, mask = self.readable(inputs.fused)
        ids, f = self.live, inputs.fused.vector
        legal = torch.ones(f.shape[0], len(ids), dtype=torch.bool, device=f.device)
        predicted = None
        if self.genotype_keys is not None:
            decision = self.decide(f, self.genotype_keys(ids).unsqueeze(0), ids, legal)
            executed = legal if self.training else decision.weights > 0
            outputs = self.pool(ids, tokens, mask, None if self.training else executed)
        elif self.predictor is not None:
            predicted = self.predictor(f, ids)
            limit = self.top_k
            all_modules = self.training or limit is None or limit + 1 >= len(ids)
            executed = legal if all_modules or limit is None else self._called(predicted, ids, limit + 1)
            outputs = self.pool(ids, tokens, mask, None if all_modules else executed)
            decision = self.decide(f, outputs, ids, executed)
        else:
            executed = legal
            outputs = self.pool(ids, tokens, mask)
            decision = self.decide(f, outputs, ids, legal)
        mixed = self.router.mix(decision, outputs, f)
        return Passage(inputs, ids, outputs, decision, predicted, executed, mixed, self.answer(mixed))

    # Parts of a pass, for probes that repeat some of them

    def decide(
        self,
        f: Tensor,
        keys: Tensor | Relations,
        ids: tuple[str, ...],
        legal: Tensor | None = None,
        *,
        dense: bool = False,
    ) -> RouterOutput:
        """The router's decision among these modules; the others are as if they were not there.

        Args:
            f: (B, d).
            keys: (B or 1, N, d), or the relations that the router makes of them; see ``ModuleRouter.decide``.
            ids: the N modules.
            legal: (B, N), true where the module may be chosen; None for all.
            dense: without top-K.
        """
        factors = [self.births.get(name, 1.0) for name in ids]
        return self.router.decide(
            f,
            keys,
            ids=ids,
            legal=legal,
            contribution=self.statistics.contribution(ids),
            dense=dense,
            births=torch.tensor(factors, dtype=torch.float64) if min(factors) < 1 else None,
            twins={ids.index(child): ids.index(own) for child, own in self.twins.items() if {child, own} <= set(ids)},
            beside=self.beside,
        )

    def _called(self, predicted: Tensor, ids: tuple[str, ...], count: int) -> Tensor:
        """(B, N), which modules are run: of mature ones those with the largest logits, and all newborns beside them."""
        newborn = [self.births.get(name, 1.0) < 1 for name in ids]
        if not any(newborn):
            return chosen(predicted, count)
        young = torch.tensor(newborn, device=predicted.device)
        return chosen(predicted, count, ~young) | young

    def answer(self, mixed: Tensor) -> dict[str, Tensor]:
        """z_r (B, d) -> output -> logits."""
        answers: dict[str, Tensor] = self.heads(mixed if self.readout is None else self.readout(mixed))
        return answers

    def readable(self, fused: Fused) -> tuple[Tensor, Tensor | None]:
        """Tokens that modules read, and their mask: F, or f in pieces."""
        if self.chunk is None:
            return fused.tokens, fused.mask
        pieces = fused.vector.view(-1, self.structure.chunks, self.structure.width // self.structure.chunks)
        return self.chunk(pieces), None

    # Learning

    def loss(self, batch: Batch) -> Tensor:
        """The task's loss, and while training the terms of ``ZooLosses`` (eq. 89); ``terms`` holds the value of
        each.
        """
        passage = self.passage(batch)
        terms = {"task": self.answers_loss(passage.answers, batch)}
        if self.training:
            terms |= self._routing_terms(passage) | self._align_term(passage, batch)
            self._used = (passage.ids, passage.decision.weights.detach().mean(0))
        self.terms = {name: value.detach() for name, value in terms.items()}
        total = terms.pop("task")
        for value in terms.values():
            total = total + value
        return total

    def observe(self) -> None:
        """See ``Network``: contributions are updated with the modules that were used in the last step."""
        if self._used is not None:
            self.statistics.observe(*self._used)
            self._used = None

    def _routing_terms(self, passage: Passage) -> dict[str, Tensor]:
        weights, decision, outputs = self.structure.losses, passage.decision, passage.outputs
        if len(passage.ids) == 1:
            return {}
        terms: dict[str, Tensor] = {}
        if weights.orthogonality:
            overlap = module_losses.orthogonality(outputs, per_sample=weights.orthogonality_per_sample)
            terms["orthogonality"] = weights.orthogonality * overlap
        if self.structure.router.kind == "mean":
            return terms
        logits, legal = decision.logits, decision.legal
        fading = max(0.0, 1.0 - self._progress / weights.entropy_until)
        if weights.load:
            terms["load"] = weights.load * module_losses.load(logits, legal)
        if weights.budget and self.top_k is not None:
            terms["budget"] = weights.budget * module_losses.budget(decision.weights, self.top_k)
        if weights.entropy and fading:
            terms["entropy"] = -weights.entropy * fading * module_losses.entropy(logits, legal)
        if weights.complexity:
            parameters = torch.tensor([float(self._parameters_of[name]) for name in passage.ids], device=logits.device)
            terms["complexity"] = weights.complexity * module_losses.complexity(decision.weights, parameters)
        if weights.z:
            terms["z"] = weights.z * z_loss(logits)
        if weights.predictor and passage.predicted is not None:
            terms["predictor"] = weights.predictor * module_losses.predictor_loss(passage.predicted, decision)
        return terms

    def _align_term(self, passage: Passage, batch: Batch) -> dict[str, Tensor]:
        """Matched pairs only; equal texts or images count as positives, samples that lack a side do not count."""
        image, text = passage.inputs.sides
        if self.alignment is None or image is None or text is None:
            return {}
        loss = self.alignment(
            image.vector, text.vector, matched=self._matched(batch, (image, text)), same=self._same(batch)
        )
        return {"align": self.structure.losses.align * loss}

    def _matched(self, batch: Batch, sides: tuple[EncodedModality, EncodedModality]) -> Tensor | None:
        """(B,), true where a sample has both sides and they belong together; None where all do."""
        parts = [side.present for side in sides if side.present is not None]
        if MATCHED in batch:
            parts.append(batch[MATCHED])
        for spec in self.output_specs:
            if spec.name == MATCH and MATCHES in spec.names:
                parts.append(batch[f"{spec.name}/target"] == spec.names.index(MATCHES))
        return torch.stack(parts).all(0) if parts else None

    def _same(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """For each side (B,) numbers that are equal where the raw inputs are."""
        image, text = ([self.senses.specs[place].name for place in side] for side in self.senses.sides)
        return _numbers(batch, image), _numbers(batch, text)

    # Looking inside

    @torch.no_grad()
    def route(self, batch: Batch) -> dict[str, Any]:
        """Router weights per sample: ``ids``; ``weights`` and ``executed``, both (B, N) on the CPU."""
        passage = self.passage(batch)
        return {
            "ids": passage.ids,
            "weights": passage.decision.weights.float().cpu(),
            "executed": passage.executed.cpu(),
        }


def _numbers(batch: Batch, names: Sequence[str]) -> Tensor:
    """(B,) integers, equal where samples have equal inputs of these names; inputs that a batch lacks are left out."""
    raw = [batch.get(f"{name}/origin", batch[name]) for name in names if name in batch]
    if not raw:
        some = next(iter(batch.values()))
        return torch.zeros(some.shape[0], dtype=torch.int64, device=some.device)
    return numbered(torch.stack([numbered(values) for values in raw], 1))
