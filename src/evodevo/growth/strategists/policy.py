"""pi_phi(a | S): a policy for zoos of any size, invariant to the order of their modules, and the features it reads.

Source: docs/spec/architect_thyself.md#strategists.

logits = those of the heuristic + a learned residual that begins at 0: before anything is learnt, the policy is
the heuristic as a distribution. What is illegal has no logit, and so the probability 0.

Legend: N modules, W width of the layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import OPERATIONS, Operation
from evodevo.growth.strategists.choice import PolicyOutput, beta_parameters
from evodevo.growth.strategists.edit_memory import kinds_of
from evodevo.growth.strategists.heuristic import Prior
from evodevo.growth.strategists.state import VALUES, Legal, ModuleState, State
from evodevo.module_zoo.modules.vector import VECTOR_SIZE

_POINTED: tuple[Operation, ...] = ("prune", "grow", "rewarm")


class Policy(nn.Module):
    """Deep sets: every module is encoded alone; their mean and maximum are the context in which each is encoded again.

    Args:
        width: Width W of its layers.
        archetypes: Families with a logit of their own in a spawn; others have the heuristic's logit alone.
        generator: Generator of the first weights.
    """

    def __init__(self, width: int, archetypes: Sequence[str], generator: torch.Generator) -> None:
        super().__init__()
        self.archetypes = tuple(archetypes)
        self.read_module = nn.Linear(MODULE_SIZE, width)
        self.read_zoo = nn.Linear(2 * width + GLOBAL_SIZE, width)
        self.read_again = nn.Linear(2 * width, width)
        for layer in (self.read_module, self.read_zoo, self.read_again):
            nn.init.xavier_normal_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
        self.operation = _silent(width, len(OPERATIONS))
        self.pointer = _silent(width, len(_POINTED))
        self.frame = _silent(width, 1)
        self.donor = _silent(width, 1)
        self.together = nn.Parameter(torch.zeros(width, width))
        self.complement = nn.Parameter(torch.zeros(()))
        self.archetype = _silent(width, len(self.archetypes))
        self.mix = _silent(2 * width, 2)
        self.scale = _silent(width, 2)
        self.value = _silent(width, 1)

    def forward(self, state: State, legal: Legal, prior: Prior, lean: Mapping[str, float]) -> PolicyOutput:
        """The distribution over legal actions.

        Args:
            state: State of the network.
            legal: Legal actions.
            prior: Logits of the heuristic.
            lean: Shifts of these logits from an edit memory, by ``kinds_of``.
        """
        context, modules = self._read(state)
        place = {module.id: number for number, module in enumerate(state.modules)}
        operations = legal.operations
        targets = {operation: legal.targets(operation) for operation in operations}
        residual = self.operation(context)
        given = torch.tensor([prior.operations[operation] + lean.get(operation, 0.0) for operation in operations])
        # Others than the paper's have the heuristic's logit, and what an edit memory says of them: the last entry.
        residual = torch.cat((residual, torch.zeros(1)))
        places = [OPERATIONS.index(name) if name in OPERATIONS else len(OPERATIONS) for name in operations]
        logits = given + residual[places]
        target_logits: dict[Operation, Tensor] = {}
        for operation in operations:
            extra = [_lean(target, state, lean) for target in targets[operation]]
            offered = torch.tensor(prior.targets[operation]) + torch.tensor(extra)
            target_logits[operation] = offered + self._targets(operation, targets[operation], context, modules, place)

        def shape(action: Action) -> tuple[Tensor, Tensor]:
            rows = modules[[place[name] for name in action.modules]]
            if action.operation == "grow":
                return beta_parameters(self.scale(rows[0]), 2.0)
            return beta_parameters(self.mix(rows.flatten()), 1.0)

        return PolicyOutput(
            operations,
            logits.log_softmax(0),
            targets,
            {operation: scores.log_softmax(0) for operation, scores in target_logits.items()},
            shape,
        )

    def worth(self, state: State) -> Tensor:
        """V(S), a scalar: the discounted reward to come."""
        context, _ = self._read(state)
        value: Tensor = self.value(context).squeeze(-1)
        return value

    def _read(self, state: State) -> tuple[Tensor, Tensor]:
        """Encodings of the zoo, (W,), and of each of its modules within it, (N, W)."""
        alone = self.read_module(module_features(state)).tanh()
        pooled = torch.cat((alone.mean(0), alone.amax(0), global_features(state)))
        context = self.read_zoo(pooled).tanh()
        modules = self.read_again(torch.cat((alone, context.expand_as(alone)), 1)).tanh()
        return context, modules

    def _targets(
        self,
        operation: Operation,
        targets: Sequence[Action],
        context: Tensor,
        modules: Tensor,
        place: Mapping[str, int],
    ) -> Tensor:
        """Residuals of the targets of one operation, (targets,)."""
        if operation in _POINTED:
            scores = self.pointer(modules)[:, _POINTED.index(operation)]
            logits: Tensor = scores[[place[target.modules[0]] for target in targets]]
            return logits
        if operation == "hybridise":
            first = [place[target.modules[0]] for target in targets]
            second = [place[target.modules[1]] for target in targets]
            scores = self.frame(modules) + self.donor(modules).T + modules @ self.together @ modules.T
            pairs: Tensor = scores[first, second]
            return pairs
        if operation == "spawn":
            # The last entry is for families without a logit of their own.
            scores = torch.cat((self.archetype(context), torch.zeros(1)))
            known = self.archetypes
            entries = [known.index(target.archetype) if target.archetype in known else len(known) for target in targets]
            families: Tensor = scores[entries]
            return families
        return torch.zeros(len(targets))


def _silent(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer of zeros: its output is 0 until it is trained."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _lean(action: Action, state: State, lean: Mapping[str, float]) -> float:
    kinds = kinds_of(action, state)
    return lean.get(kinds[1], 0.0) if len(kinds) > 1 else 0.0


MODULE_SIZE = VECTOR_SIZE + 14
GLOBAL_SIZE = 5 + VALUES + (VALUES - 1)


def module_features(state: State) -> Tensor:
    """(N, ``MODULE_SIZE``): each module, its best and its mean complementarity."""
    rows = []
    for place, module in enumerate(state.modules):
        partners = (
            [value for other, value in enumerate(state.complementarity[place]) if other != place]
            if (state.complementarity)
            else []
        )
        rows.append([*_own(module), max(partners, default=0.0), sum(partners) / max(len(partners), 1)])
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), MODULE_SIZE)


def global_features(state: State) -> Tensor:
    """(``GLOBAL_SIZE``,): network and training; older values first, 0 where there are none."""
    values, slopes = state.values[-VALUES:], state.slopes
    return torch.tensor(
        [
            len(state.modules) / state.most,
            state.budget,
            state.progress,
            math.asinh(state.diversity),
            len(values) / VALUES,
            *[0.0] * (VALUES - len(values)),
            *[math.asinh(value) for value in values],
            *[0.0] * (VALUES - 1 - len(slopes)),
            # Validation moves by hundredths.
            *[math.asinh(100 * slope) for slope in slopes],
        ],
        dtype=torch.float32,
    )


def _own(module: ModuleState) -> list[float]:
    return [
        *module.vector,
        math.log1p(module.parameters) / 20,
        math.log1p(module.flops) / 25,
        math.log1p(module.age) / 3,
        *[
            math.asinh(value)
            for value in (
                module.usage,
                module.impact,
                module.contribution,
                module.fitness,
                module.spread,
                module.redundancy,
            )
        ],
        module.dropout,
        float(module.warming),
        float(module.candidate),
    ]
