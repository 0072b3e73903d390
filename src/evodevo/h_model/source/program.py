"""The text of ``model.py`` of one H-Model: plain PyTorch, with what this network uses and nothing else.

It has the names of the network's own state dict. Equal networks give equal text.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.carried.router import SharedRouter
from evodevo.h_model.halting import HaltingUnit
from evodevo.h_model.model import HModel
from evodevo.h_model.source.core import core_source
from evodevo.networks.canvas import input_length
from evodevo.networks.source.arguments import arguments, given, usage_lines
from evodevo.networks.source.inputs import inputs_source
from evodevo.networks.source.outputs import outputs_source
from evodevo.operators.source.layers import MASKED_MEAN
from evodevo.operators.source.sheet import Fragment, Program, RepresentationSource, SourceSheet, identifier, listed

_UNIT = '''
class HaltingUnit(nn.Module):
    """Sums of the outputs (B, O, S, D) -> the chance (B, {axes}) that a {where} halts now."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 1)

    def forward(self, y, masks):
        return torch.sigmoid(self.linear({pooled}).squeeze(-1))
'''
_MOVED = {
    "labels": '''
def moved_labels(now, before):
    """KL(now || before) of independent labels, in sum."""
    chance = torch.sigmoid(now)
    yes = chance * (F.logsigmoid(now) - F.logsigmoid(before))
    return (yes + (1 - chance) * (F.logsigmoid(-now) - F.logsigmoid(-before))).sum(-1)
''',
    "classes": '''
def moved(now, before):
    """KL(now || before) of the classes."""
    now, before = now.log_softmax(-1), before.log_softmax(-1)
    return (now.exp() * (now - before)).sum(-1)
''',
}
NOTE = (
    "`model.py` needs torch and safetensors. It computes what the trained network answers in evaluation mode, with"
    " gradients; dropout, losses on routing and annealing of a training are not in it."
)


def h_model_program(network: HModel) -> Program:
    """The H-Model as source.

    Raises:
        UsageError: A layer or an aggregation without source, or a setting that has none; the message says what to do.
    """
    if network.follows:
        raise UsageError("the network follows given routes in place of its router's; call follow(None) first.")
    if network.structure.own and network.births:
        raise UsageError("hidden layers of an output's own have no source while layers are partly born; take --to pt2.")
    return _HModelProgram(network).program()


def h_model_representation(network: HModel, sheet: SourceSheet) -> RepresentationSource:
    """The mean (B, D) over outputs and real positions of what the outputs receive, as a class; see
    ``NetworkSpec.represented_source``.

    Raises:
        UsageError: as ``h_model_program``; also outputs with hidden layers of their own.
    """
    if network.structure.own:
        raise UsageError("what an H-Model with layers of an output's own represents has no source; take --to pt2.")
    return _HModelProgram(network, sheet).representation()


def whole_weights(network: HModel) -> dict[str, Tensor]:
    """The state dict, with one router in one piece where rows of it are parameters of their own."""
    state, router = dict(network.state_dict()), getattr(network.core, "router", None)
    if isinstance(router, SharedRouter) and router.apart.layers:
        state = {name: value for name, value in state.items() if not name.startswith("core.router.")}
        state |= {f"core.router.{name}": value for name, value in router.whole_state().items()}
    return state


class _HModelProgram:
    def __init__(self, network: HModel, sheet: SourceSheet | None = None) -> None:
        self.network = network
        self.structure = network.structure
        self.sheet = SourceSheet() if sheet is None else sheet
        self.represents = sheet is not None
        self.names = tuple(spec.name for spec in network.input_specs)
        self.rule = self.structure.halting.rule

    def program(self) -> Program:
        """See ``h_model_program``."""
        body = list(self._model("Model", *self._classes()))
        text = self.sheet.text("\n".join(self._docstring()), "\n".join(body))
        return Program(text, whole_weights(self.network), arguments(self.network), notes=(NOTE,))

    def representation(self) -> RepresentationSource:
        """See ``h_model_representation``."""
        self.sheet.add(MASKED_MEAN)
        parts, weights = self._classes(), whole_weights(self.network)
        name = self.sheet.write(
            ("h_model", id(self.network)), "HModel", lambda free: "\n".join(self._model(free, *parts))
        )
        if parts[2] is None:
            weights = {one: tensor for one, tensor in weights.items() if not one.startswith("outputs.")}
        return RepresentationSource(name, weights)

    def _classes(self) -> tuple[str, str, str | None]:
        """Names of the classes of inputs, core and outputs; these are left out where nothing reads an answer."""
        network, structure, sheet = self.network, self.structure, self.sheet
        inputs = inputs_source(sheet, network.inputs, causal=structure.causal)
        core = core_source(sheet, network.core, network.iterations, "Core", length=self._length())
        if self.represents and self.rule != "kl":
            return inputs, core, None
        beside = structure.canvas == "segments"
        return inputs, core, outputs_source(sheet, network.outputs, self.names, causal=structure.causal, beside=beside)

    def _length(self) -> int | None:
        """Positions of the canvas where they are fixed."""
        specs, structure = self.network.input_specs, self.structure
        if structure.canvas == "latents":
            return structure.slots
        if any(spec.modality == "tokens" for spec in specs):
            return None
        lengths = [input_length(spec) for spec in specs]
        return sum(lengths) if structure.canvas == "segments" else max(lengths)

    def _docstring(self) -> Iterator[str]:
        structure, network = self.structure, self.network
        count = len(structure.hidden)
        yield f"An H-Model of {count} hidden layers and {network.iterations} iterations, in plain PyTorch."
        yield ""
        yield "Written by evodevo."
        yield ""
        yield from usage_lines(network)
        yield ""
        yield "Legend: B samples, S positions on which all inputs meet, D width, I inputs, H hidden layers, O outputs,"
        yield "K sources (I or H), N = H + O targets; P is 1, or S where connections are decided at each position."

    def _model(self, name: str, inputs: str, core: str, outputs: str | None) -> Iterator[str]:
        values, masks = given(self.network)
        yield f"class {name}(nn.Module):"
        yield f'    """Inputs, core{"" if outputs is None else ", outputs"}."""'
        yield ""
        yield "    def __init__(self):"
        yield "        super().__init__()"
        yield f"        self.inputs = {inputs}()"
        yield f"        self.core = {core}()"
        if outputs is not None:
            yield f"        self.outputs = {outputs}()"
        routes = self.structure.carried.routes
        if routes is not None:
            # Which layer each symbol stands for.
            numbers = listed([str(place) for place in routes.layers], 8)
            yield f'        self.register_buffer("table", torch.tensor({numbers}), persistent=False)'
        if self.network.unit is not None:
            yield f"        self.unit = {self._unit(self.network.unit)}({self.structure.width})"
        yield ""
        yield f"    def forward(self, {', '.join(arguments(self.network))}):"
        what = (
            "The mean (B, D) of what the outputs receive" if self.represents else "Logits, one tensor for each output"
        )
        yield f'        """{what}."""'
        yield f"        values, masks, lengths = self.inputs({values}, {masks})"
        if routes is not None:
            name = identifier(routes.input)
            slots = ", ".join(map(str, routes.slots))
            yield "        # The symbol in each slot names the layer of one iteration."
            yield f"        codes = [{name}[:, slot : slot + {len(routes.layers)}].argmax(-1) for slot in ({slots},)]"
            yield "        routes = self.table[torch.stack(codes, 1)]"
        if self.structure.own:
            yield from self._passes()
        elif self.rule == "none":
            yield f"        *_, (y, y_masks) = self.core({self._core_arguments()})"
            yield self._returned("y", "y_masks")
        else:
            yield from self._halting()

    def _returned(self, y: str, masks: str) -> str:
        if self.represents:
            return f"        return masked_mean({y}.mean(1), None if {masks} is None else {masks}.any(1))"
        return f"        return self.outputs({y}, {masks}, lengths)"

    def _passes(self) -> Iterator[str]:
        """Each group of outputs has a pass in which the layers of others do not take part."""
        structure, names = self.structure, [spec.name for spec in self.network.output_specs]
        passes = structure.passes(len(names))
        of = tuple(passes.index(structure.absent(name)) for name in names)
        yield "        passes = []"
        yield f"        for number in range({len(passes)}):  # one for all outputs with the same layers"
        yield "            *_, last = self.core(values, masks, number)"
        yield "            passes.append(last)"
        yield f"        of = {of}  # the pass of each output"
        yield "        y = torch.stack([passes[number][0][:, output] for output, number in enumerate(of)], 1)"
        yield "        y_masks = None"
        yield "        if passes[0][1] is not None:"
        yield "            y_masks = torch.stack([passes[number][1][:, output] for output, number in enumerate(of)], 1)"
        yield "        return self.outputs(y, y_masks, lengths)"

    def _core_arguments(self) -> str:
        return "values, masks" if self.structure.carried.routes is None else "values, masks, routes"

    def _unit(self, unit: HaltingUnit) -> str:
        if unit.per_position:
            text = _UNIT.format(axes="S", where="position", pooled="y.mean(1)")
            return self.sheet.add(Fragment("HaltingUnit", text))
        text = _UNIT.format(axes="1", where="sample", pooled="masked_mean(y, masks).mean(1, keepdim=True)")
        return self.sheet.add(Fragment("HaltingUnit", text, (MASKED_MEAN,)))

    def _halting(self) -> Iterator[str]:
        threshold = repr(self.structure.halting.threshold)
        yield f"        steps = self.core({self._core_arguments()})"
        yield "        kept, kept_masks = next(steps)  # replaced when a sample, or a position, halts"
        yield "        running = True"
        if self.rule == "kl":
            yield "        before = self.outputs(kept, kept_masks, lengths)"
        else:
            yield "        mass = 0.0"
        if self.rule == "act":
            yield "        mixed = torch.zeros_like(kept)"
        yield "        for t, (y, y_masks) in enumerate(steps, 1):"
        yield from ("            " + line for line in self._judged(threshold))
        yield "            if masks is not None and halted.shape[1] > 1:"
        yield "                halted = halted | ~masks.any(1)  # where there is no input"
        yield "            new = halted & running"
        state = "mixed" if self.rule == "act" else "y"
        yield f"            kept = torch.where(new[:, None, :, None], {state}, kept)"
        yield "            if kept_masks is not None and y_masks is not None:"
        yield "                kept_masks = torch.where(new[:, None, :], y_masks, kept_masks)"
        yield "            running = running & ~halted"
        yield "            if not running.any():"
        yield "                break"
        yield self._returned("kept", "kept_masks")

    def _judged(self, threshold: str) -> Iterator[str]:
        if self.rule == "kl":
            yield from self._steady(threshold)
            return
        yield "chance = self.unit(y, y_masks)"
        if self.rule == "act":
            yield f"halted = (mass + chance >= {threshold}) | (t == self.core.iterations)"
            yield "share = torch.where(halted, 1 - mass, chance)"
            yield "mixed, mass = mixed + y * share[:, None, :, None], mass + chance"
        else:
            yield "mass = 1 - (1 - mass) * (1 - chance)  # the chance of having halted"
            yield f"halted = (mass >= {threshold}) | (t == self.core.iterations)"

    def _steady(self, threshold: str) -> Iterator[str]:
        specs = list(enumerate(self.network.output_specs))
        if self.structure.causal:
            specs = [pair for pair in specs if pair[1].kind == "tokens"] or specs
        yield "now = self.outputs(y, y_masks, lengths)"
        parts = []
        for number, spec in specs:
            kind = "labels" if spec.kind == "labels" else "classes"
            name = self.sheet.add(Fragment("moved_labels" if kind == "labels" else "moved", _MOVED[kind]))
            calm = f"{name}(now[{number}], before[{number}]) < {threshold}"
            if spec.kind == "tokens":
                place = self.names.index(spec.of) if self.structure.canvas == "segments" else 0
                begin = f"sum(lengths[:{place}])" if place else "0"
                length = f"lengths[{self.names.index(spec.of)}]"
                yield f"begin, length = {begin}, {length}"
                parts.append(f"F.pad({calm}, (begin, y.shape[2] - begin - length), value=True)")
            else:
                parts.append(f"({calm}).unsqueeze(1)")
        yield f"halted, before = {' & '.join(parts)}, now"
        yield "halted = halted | (t == self.core.iterations)"
