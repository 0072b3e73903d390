"""From operator and featurizer genome to an operator, or to the integers that conflict.

Of the 576 operator genomes over the paper's options those compile that mean one well-defined causal operator with a
recurrent form; every other one is refused here, by name (docs/spec/star.md#operator-genome).
"""

from __future__ import annotations

from evodevo.errors import GenomeError
from evodevo.operators import featurizer_spec as genes
from evodevo.operators.featurizer_spec import FEATURIZERS, Featurizer, check_featurizer
from evodevo.operators.spec import RECURRENT, ROLES, Differential, OperatorSpec, Structure

STRUCTURES: dict[int, Structure] = {1: "diagonal", 2: "low_rank", 3: "toeplitz", 4: "semi_separable", 5: "delta"}


def compile_operator(
    operator: tuple[int, ...], featurizer: Featurizer | None = None, differential: Differential = "none"
) -> OperatorSpec:
    """Compile genomes to an operator.

    Args:
        operator: five integers; the first names a featurizer class.
        featurizer: a featurizer genome instead of the one that the first integer denotes.
        differential: none, literal (two copies, subtracted) or v2 (twice the queries, subtracted head by head).

    Raises:
        GenomeError: an integer is out of range, or integers conflict; the message names them.
    """
    _check_operator(operator)
    groups = FEATURIZERS[operator[0]] if featurizer is None else featurizer
    check_featurizer(groups)
    structure = STRUCTURES[operator[1]]
    roles = ROLES[structure]
    if len(groups) != len(roles):
        raise GenomeError(
            f"integers 1 and 2 conflict: featurizer class {operator[0]} makes {len(groups)} feature groups; "
            f"the {structure} structure ({operator[1]}) reads {len(roles)} ({', '.join(roles)})."
        )
    spec = OperatorSpec(
        operator=operator,  # type: ignore[arg-type]
        featurizer=groups,
        differential=differential,
        structure=structure,
        groups=dict(zip(roles, groups, strict=True)),
    )
    for problem in (_sparsity_problem(spec), _nonlinearity_problem(spec), _mixing_problem(spec), _group_problem(spec)):
        if problem:
            raise GenomeError(problem)
    if differential == "v2" and (structure != "low_rank" or not spec.keeps_scores):
        raise GenomeError("the differential form v2 subtracts attention heads; integers 2 and 4 must be 2 and 2 to 4.")
    return spec


def _check_operator(operator: tuple[int, ...]) -> None:
    if len(operator) != 5:
        raise GenomeError(f"an operator genome has 5 integers; {len(operator)} were given.")
    ranges = ((1, max(FEATURIZERS)), (1, max(STRUCTURES)), (1, 2), (1, 4), (1, 2))
    names = ("featurizer class", "token mixing", "sparsity", "non-linearity", "channel mixing")
    for place, (value, (low, high), name) in enumerate(zip(operator, ranges, names, strict=True), 1):
        if not low <= value <= high:
            raise GenomeError(f"operator genome, integer {place} ({name}) is {value}; it must be {low} to {high}.")


def _sparsity_problem(spec: OperatorSpec) -> str | None:
    if spec.banded and spec.structure in RECURRENT:
        name = spec.structure.replace("_", "-")
        return f"integers 2 and 3 conflict: a banded {name} structure ({spec.operator[1]}, 2) has no recurrent form."
    return None


def _nonlinearity_problem(spec: OperatorSpec) -> str | None:
    if spec.structure in ("toeplitz", *RECURRENT) and spec.nonlinearity != genes.LINEAR:
        return (
            f"integers 2 and 4 conflict: a non-linearity ({spec.nonlinearity}) over the entries of a "
            f"{spec.structure} structure ({spec.operator[1]}) destroys its fast and its recurrent form; it must be 1."
        )
    if spec.structure == "diagonal" and spec.nonlinearity == genes.SOFTMAX:
        return "integers 2 and 4 conflict: softmax (2) over the single entry of a diagonal row (1) is always one."
    return None


def _mixing_problem(spec: OperatorSpec) -> str | None:
    # 1: T is diagonal over D channels and a projection follows it; 2: that projection is a part of T. The sums are the
    # same, so both compile wherever T maps D channels to D.
    if spec.structure == "diagonal" and spec.operator[4] == 1 and spec.groups["up"].expansion != 1:
        return (
            f"integers 1 and 5 conflict: featurizer class {spec.operator[0]} widens its groups, and diagonal channel "
            "mixing (1) cannot bring them back to the model's width; it must be 2."
        )
    return None


def _group_problem(spec: OperatorSpec) -> str | None:
    filters = ("filter",) if spec.structure == "toeplitz" else ()
    for number, (role, group) in enumerate(spec.groups.items(), 1):
        name = f"feature group {number} ({role})"
        if role in filters:
            if group.parametrisation == genes.PROJECTED:
                return (
                    f"integers 1 and 2 conflict: {name} of a Toeplitz structure must be explicit (2) or implicit (3)."
                )
            wanted = (genes.TOEPLITZ, genes.BANDED if group.parametrisation == genes.EXPLICIT else genes.UNMASKED)
            if (group.token_mixing, group.sparsity) != wanted:
                return f"{name}: token mixing and sparsity must be {wanted[0]} and {wanted[1]}."
            if group[3:] != (1, 1, 1, 1):
                return f"{name}: non-linearity, channel mixing, expansion and repeat must be 1."
            continue
        if group.parametrisation != genes.PROJECTED:
            return f"integers 1 and 2 conflict: {name} must be a projection of the input (parametrisation 1)."
        if (group.token_mixing, group.sparsity) not in ((1, 1), (genes.TOEPLITZ, genes.BANDED)):
            return f"{name}: token mixing and sparsity must be 1 and 1, or 3 and 2 (a short convolution)."
        if group.nonlinearity == genes.SOFTMAX:
            return f"{name}: softmax over channels is not a feature map here; non-linearity must be 1, 3 or 4."
        if role == "decay" and group.nonlinearity != genes.LINEAR:
            return f"{name}: the decay has its own non-linearity; it must be 1."
        if group.channel_mixing != genes.DENSE and spec.structure != "toeplitz":
            return f"{name}: channel mixing must be dense (2) in a {spec.structure} structure."
        if group.repeat != 1 and (spec.structure != "low_rank" or role == "query"):
            return f"{name}: repeat must be 1."
    return _sizes_problem(spec)


def _sizes_problem(spec: OperatorSpec) -> str | None:
    expansion = {role: group.expansion for role, group in spec.groups.items()}
    if spec.structure == "diagonal":
        if expansion["gate"] != expansion["up"]:
            return "feature groups 1 and 2 (gate, up): their expansions must be equal."
    elif spec.structure == "semi_separable":
        if expansion["write"] != expansion["read"]:
            return "feature groups 4 and 5 (write, read): their expansions, the state size, must be equal."
        if expansion["value"] != 1 or expansion["gate"] != 1:
            return "feature groups 1 and 2 (value, gate): expansion must be 1."
    elif any(value != 1 for value in expansion.values()):
        return f"expansion must be 1 in every feature group of a {spec.structure} structure."
    if spec.structure == "low_rank" and spec.groups["key"].repeat != spec.groups["value"].repeat:
        return "feature groups 2 and 3 (key, value): their repeats must be equal."
    return None
