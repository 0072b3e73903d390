"""Arguments of a generated network: the tensors that graphs take too, in the same order (``networks.tensors``)."""

from __future__ import annotations

from collections.abc import Iterator

from evodevo.networks.base import Network
from evodevo.networks.tensors import reads_masks
from evodevo.operators.source.sheet import WEIGHTS, identifier
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

MOST_NAMES = 8


def argument_pairs(network: Network) -> list[tuple[str, str | None]]:
    """For each input the names of its argument and of that of its mask, if it has one."""
    pairs = []
    for spec in network.input_specs:
        name = identifier(spec.name)
        masked = spec.modality == "tokens" and reads_masks(network)
        pairs.append((name, f"{name}_mask" if masked else None))
    return pairs


def arguments(network: Network) -> tuple[str, ...]:
    """Names of the arguments of ``forward``."""
    return tuple(name for pair in argument_pairs(network) for name in pair if name)


def given(network: Network) -> tuple[str, str]:
    """Expressions of the tuples of inputs and of masks."""
    pairs = argument_pairs(network)
    inputs, masks = (", ".join(str(pair[number]) for pair in pairs) for number in (0, 1))
    return (f"({inputs},)", f"({masks},)") if len(pairs) == 1 else (f"({inputs})", f"({masks})")


def usage_lines(network: Network, *, load: bool = True) -> Iterator[str]:
    """How the file is used, for its docstring; without ``load`` the file has no function of this name."""
    outputs = ", ".join(identifier(spec.name) for spec in network.output_specs)
    outputs = f"({outputs},)" if len(network.output_specs) == 1 else outputs
    yield f"    model = load()  # weights: {WEIGHTS} beside this file" if load else "    model = Model().eval()"
    yield f"    {outputs} = model({', '.join(arguments(network))})"
    yield ""
    for spec, (name, mask) in zip(network.input_specs, argument_pairs(network), strict=True):
        yield f"{name}: {_input_words(spec, network.longest_text(spec))}."
        if mask is not None:
            yield f"{mask}: (B, L), true at real tokens, or None where all are."
    for output in network.output_specs:
        yield f"{identifier(output.name)}: {_output_words(output)}."


def _input_words(spec: InputSpec, longest: int) -> str:
    if spec.modality == "tokens":
        return f"token ids (B, L) below {spec.vocabulary}" + (f", L at most {longest}" if longest else "")
    if spec.modality == "image":
        return f"images (B, {spec.height}, {spec.width}, {spec.channels}) of bytes, 0 to 255"
    if spec.modality == "vector":
        return f"numbers (B, {spec.size})"
    return f"numbers (B, L, {spec.size}), L at most {spec.length}"


def _output_words(spec: OutputSpec) -> str:
    if spec.kind == "tokens":
        return f"logits (B, L, {spec.size}) of each next token"
    what = "classes" if spec.kind == "class" else "independent labels"
    names = [str(name) for name in spec.names[:MOST_NAMES]]
    more = f": {', '.join(names)}{' ...' if len(spec.names) > MOST_NAMES else ''}" if names else ""
    clean = more.replace('"""', "''").replace("\\", "/")
    return f"logits (B, {spec.size}) of {what}{clean}"[:110]
