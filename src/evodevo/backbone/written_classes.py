"""LIV classes that no table lists: the class number is the operator genome itself, written in decimal digits.

``12141`` is the operator genome 1, 2, 1, 4, 1: its last four digits are integers 2 to 5, the number before them is the
featurizer class. In the place of a featurizer class of the table a featurizer genome may be written, again in digits:
one size (the repeat of keys and values, the state size of a recurrence, the expansion of a memoryless operator; else
1), then two digits per group. The first digit of a group tells parametrisation, short convolution and channel mixing
(``FORMS``), the second is its non-linearity. ``4111111`` is the featurizer of SA-3.

Genomes of equal operators have one number: integers that their structure does not read are written as in the table of
featurizers, sparsity as 1 where a band leaves out nothing, and channel mixing (integer 5) as 1 wherever 1 and 2 are the
same sums.
"""

from __future__ import annotations

from functools import lru_cache

from evodevo.errors import GenomeError
from evodevo.operators import featurizer_spec as genes
from evodevo.operators.classes import LIVClass, liv_classes
from evodevo.operators.compile import STRUCTURES, compile_operator
from evodevo.operators.featurizer_spec import FEATURIZERS, Featurizer, GroupGenes
from evodevo.operators.spec import RECURRENT, ROLES, OperatorGenome, OperatorSpec

SMALLEST, LARGEST = 11_111, 2**53 - 1
"""Range of written class numbers. JSON readers in other languages hold integers up to 2^53 - 1 exactly."""
OPERATOR_DIGITS = 10_000
LARGEST_SIZE = 64

# Parametrisation, token mixing, sparsity, channel mixing.
FORMS: dict[int, tuple[int, int, int, int]] = {
    1: (genes.PROJECTED, genes.DIAGONAL, genes.UNMASKED, genes.DENSE),
    2: (genes.PROJECTED, genes.TOEPLITZ, genes.BANDED, genes.DENSE),
    3: (genes.PROJECTED, genes.DIAGONAL, genes.UNMASKED, 1),
    4: (genes.PROJECTED, genes.TOEPLITZ, genes.BANDED, 1),
    5: (genes.EXPLICIT, genes.TOEPLITZ, genes.BANDED, 1),
    6: (genes.IMPLICIT, genes.TOEPLITZ, genes.UNMASKED, 1),
}
_DIGIT = {form: digit for digit, form in FORMS.items()}
# Groups that have the size of the operator: (structure, role) -> whether it is an expansion or a repeat.
_EXPANDED = {("semi_separable", "write"), ("semi_separable", "read"), ("diagonal", "gate"), ("diagonal", "up")}
_REPEATED = {("low_rank", "key"), ("low_rank", "value")}


def written_class(number: int) -> LIVClass:
    """The class of a written number.

    Raises:
        GenomeError: The digits are no operator genome, it does not compile, or a shorter number denotes the same class.
    """
    return _written(number)


@lru_cache(maxsize=4096)
def _written(number: int) -> LIVClass:
    if not SMALLEST <= number <= LARGEST:
        raise GenomeError(f"{number} is no operator genome; one has 5 to {len(str(LARGEST))} digits, such as 12141.")
    front, digits = divmod(number, OPERATOR_DIGITS)
    mixing, sparsity, nonlinearity, channels = (int(digit) for digit in f"{digits:04}")
    operator: OperatorGenome = (front if front in FEATURIZERS else 1, mixing, sparsity, nonlinearity, channels)
    featurizer = None if front in FEATURIZERS else _read_featurizer(front, mixing, number)
    spec = compile_operator(operator, featurizer)
    if (short := class_number(spec)) != number:
        raise GenomeError(f"the operator genome {number} is written {short}: the networks are equal.")
    return LIVClass(number, f"Op-{number}", operator, featurizer=featurizer)


class LIVClasses(dict[int, LIVClass]):
    """All LIV classes by number: the rows of the table, and written ones, which are made when they are asked for."""

    def __missing__(self, number: int) -> LIVClass:
        """
        Raises:
            KeyError: The number is neither a row's nor an operator genome's.
        """
        try:
            return written_class(number)
        except GenomeError:
            raise KeyError(number) from None

    def __contains__(self, number: object) -> bool:
        if super().__contains__(number):
            return True
        if type(number) is not int or number < SMALLEST:
            return False
        try:
            written_class(number)
        except GenomeError:
            return False
        return True


def class_number(spec: OperatorSpec) -> int:
    """The number of an operator: that of the table of classes where a row has it, else the written one.

    Raises:
        GenomeError: It is differential, or of a size that has no digits.
    """
    if spec.differential != "none":
        raise GenomeError("a differential operator has no written number; name its row of the table.")
    key = _key(spec)
    if (row := _table().get(key)) is not None:
        return row
    operator, featurizer = key
    known = next((number for number, groups in FEATURIZERS.items() if groups == featurizer), None)
    front = _written_featurizer(spec) if known is None else known
    number = front * OPERATOR_DIGITS + int("".join(map(str, operator)))
    if number > LARGEST:
        raise GenomeError(f"the operator has a size above {LARGEST_SIZE}, and no number.")
    return number


@lru_cache(maxsize=1)
def _table() -> dict[tuple[tuple[int, ...], Featurizer], int]:
    """Equal operators of the table have the number of the first."""
    numbers: dict[tuple[tuple[int, ...], Featurizer], int] = {}
    for number, row in liv_classes().items():
        if row.differential == "none":
            numbers.setdefault(_key(row.spec), number)
    return numbers


def _key(spec: OperatorSpec) -> tuple[tuple[int, ...], Featurizer]:
    """Integers 2 to 5 and the featurizer, those that mean nothing in this structure at one value."""
    widened = spec.structure == "diagonal" and spec.groups["up"].expansion != 1
    groups = tuple(_normalised(spec, role, group) for role, group in spec.groups.items())
    _, mixing, sparsity, nonlinearity, _ = spec.operator
    short = spec.structure == "toeplitz" and spec.groups["filter"].parametrisation == genes.EXPLICIT
    if spec.structure == "diagonal" or short:  # a band leaves out nothing
        sparsity = genes.UNMASKED
    return (mixing, sparsity, nonlinearity, 2 if widened else 1), groups


def _normalised(spec: OperatorSpec, role: str, group: GroupGenes) -> GroupGenes:
    if spec.structure not in RECURRENT:
        return group
    if role == "decay":
        return group._replace(token_mixing=genes.TOEPLITZ, sparsity=genes.BANDED, expansion=1)
    if role == "gate":
        return group._replace(token_mixing=genes.TOEPLITZ, sparsity=genes.BANDED)
    # Behind its convolution a group of a recurrence has SiLU where the gene asks for nothing.
    swish = group.token_mixing == genes.TOEPLITZ and group.nonlinearity == genes.SWISH
    return group._replace(nonlinearity=genes.LINEAR) if swish else group


def _written_featurizer(spec: OperatorSpec) -> int:
    digits = str(_size(spec))
    for role, group in spec.groups.items():
        group = _normalised(spec, role, group)
        form = (group.parametrisation, group.token_mixing, group.sparsity, group.channel_mixing)
        digits += f"{_DIGIT[form]}{group.nonlinearity}"
    return int(digits)


def _size(spec: OperatorSpec) -> int:
    for role, group in spec.groups.items():
        if (spec.structure, role) in _EXPANDED:
            return group.expansion
        if (spec.structure, role) in _REPEATED:
            return group.repeat
    return 1


def _read_featurizer(front: int, mixing: int, number: int) -> Featurizer:
    structure = STRUCTURES.get(mixing)
    roles = ROLES[structure] if structure else ()
    digits = str(front)
    size, pairs = digits[: -2 * len(roles)], digits[-2 * len(roles) :]
    if not roles or not size or int(size) > LARGEST_SIZE or not set(pairs[::2]) <= set(map(str, FORMS)):
        raise GenomeError(
            f"{number} is no operator genome: before its last four digits a featurizer class is wanted, or a size from "
            f"1 to {LARGEST_SIZE} and two digits for each feature group, of which the first is 1 to {len(FORMS)}."
        )
    groups = []
    for role, form, nonlinearity in zip(roles, pairs[::2], pairs[1::2], strict=True):
        parametrisation, token_mixing, sparsity, channel_mixing = FORMS[int(form)]
        expansion = int(size) if (structure, role) in _EXPANDED else 1
        repeat = int(size) if (structure, role) in _REPEATED else 1
        groups.append(
            GroupGenes(parametrisation, token_mixing, sparsity, int(nonlinearity), channel_mixing, expansion, repeat)
        )
    return tuple(groups)
