"""The text of one operator's class in a generated ``model.py``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from evodevo.operators import featurizer_spec as genes
from evodevo.operators.genome_text import print_segments
from evodevo.operators.source.layers import DIFFERENCE
from evodevo.operators.source.pieces import CHUNK, fragments
from evodevo.operators.source.sheet import Fragment, SourceSheet
from evodevo.operators.spec import RECURRENT, Dimensions, OperatorSpec

WEIGHTS_CLASS = Fragment(
    "Weights",
    '''
class Weights(nn.Module):
    """Parameters by name."""

    def __init__(self, shapes):
        super().__init__()
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
''',
)
_BANKED = "; groups live in the model's bank"
_ACTIVATIONS = {genes.RELU: "F.relu({})", genes.SWISH: "F.silu({})"}


@dataclass
class WrittenClass:
    """One class of the file.

    Attributes:
        lines: lines of its text.
        pieces: names of the functions that it calls.
        constants: names of the constants that it reads.
    """

    lines: list[str]
    pieces: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)


class OperatorSource:
    """Writer of one operator's class.

    Args:
        name: name of the class.
        title: first words of its docstring.
        spec: the compiled operator.
        dims: sizes of the operator.
        borrowed: roles that some layer of this operator borrows.
        closed: whether it owns its groups and reads a mask, without a state: the form of layers. Else groups live in
            the model's bank, and a state continues texts without padding.
    """

    def __init__(
        self,
        name: str,
        title: str,
        spec: OperatorSpec,
        dims: Dimensions,
        borrowed: Collection[str] = (),
        *,
        closed: bool = False,
    ) -> None:
        self.name, self.title, self.spec, self.dims = name, title, spec, dims
        self.borrowed = frozenset(borrowed)
        self.closed = closed
        self.head = str(dims.head) if closed and self._has_heads() else "HEAD"
        self.pieces: set[str] = set()
        self.constants: set[str] = set()

    def written(self) -> WrittenClass:
        """The class."""
        bodies = {
            "diagonal": self._memoryless,
            "low_rank": self._attention,
            "semi_separable": self._recurrence,
            "delta": self._delta,
            "toeplitz": self._convolution,
        }
        body = list(bodies[self.spec.structure]())
        lines = [
            f"class {self.name}(nn.Module):",
            f'    """{self.title}, operator genome {print_segments([self.spec.operator])}."""',
            "",
            f"    GROUPS = {{  # parameters of each feature group{'' if self.closed else _BANKED}",
            *(
                f'        "{role}": {_shapes(self.spec.group_parameters(role, self.dims))},'
                for role in self.spec.groups
            ),
            "    }",
            "",
            "    def __init__(self):",
            "        super().__init__()",
            *(
                f"        self.{name} = nn.Parameter(torch.empty({', '.join(map(str, shape))}))"
                for name, shape in self.spec.own_parameters(self.dims).items()
            ),
            *(["        self.bank = nn.ModuleDict({role: Weights(shapes) for role, shapes in self.GROUPS.items()})"]
              if self.closed else []),
            "",
            *(["    def forward(self, x, mask):", "        x = real(x, mask)",
               "        weights, made, state = self.bank, {}, {}"]
              if self.closed else ["    def forward(self, x, weights, made, state):"]),
            *(f"        {line}" if line else "" for line in body),
        ]  # fmt: skip
        if self.closed:
            self.pieces.add("real")
        return WrittenClass(lines, self.pieces, self.constants)

    def _has_heads(self) -> bool:
        return self.spec.structure in ("low_rank", *RECURRENT)

    def _real(self, value: str) -> str:
        """The value, zero at padding where there is some."""
        return f"real({value}, mask)" if self.closed else value

    # Feature groups

    def _group(self, role: str, wrap: str = "{}", beside: str = "") -> Iterator[str]:
        """Compute a group's features where they are not borrowed; ``wrap`` is applied to them, and with them goes the
        parameter of the group that is named ``beside``."""
        spec, group = self.spec, self.spec.groups[role]
        taps, value, lines = spec.taps(role), "x", []
        named = f'weights["{role}"]'
        if taps:
            lines.append(f"group = {named}")
            named = "group"
        if group.channel_mixing == genes.DENSE:
            value = f"F.linear({value}, {named}.weight)"
        elif not taps:
            value = f"{value} * {named}.gain"
        if taps:
            self.pieces.add("taps")
            value = self._real(f'short_convolution({value}, {named}.taps, state, "{role}_taps")')
        code = group.nonlinearity
        if spec.structure in RECURRENT and taps and code == genes.LINEAR:
            code = genes.SWISH
        value = _ACTIVATIONS.get(code, "{}").format(value)
        if beside:
            lines += [f"{role} = {wrap.format(value)}", f'made["{role}"] = {role}, {named}.{beside}']
        else:
            lines.append(f'made["{role}"] = {wrap.format(value)}')
        yield from self._unless_borrowed(role, lines)

    def _unless_borrowed(self, role: str, lines: list[str]) -> Iterator[str]:
        if role in self.borrowed:
            yield f'if "{role}" not in made:'
            yield from (f"    {line}" for line in lines)
        else:
            yield from lines

    # Structures

    def _memoryless(self) -> Iterator[str]:
        yield from self._group("gate")
        yield from self._group("up")
        gate = _ACTIVATIONS.get(self.spec.nonlinearity, "{}").format('made["gate"]')
        yield f'return F.linear({gate} * made["up"], self.out)'

    def _attention(self) -> Iterator[str]:
        spec = self.spec
        self.pieces |= {"heads", "rotate_real" if self.closed else "rotate", "repeated"}
        self.constants.add("HEAD")
        if not self.closed:
            yield 'start = state.get("start", 0)'
            yield 'state["start"] = start + x.shape[1]'
        for role in ("query", "key", "value"):
            wrap = f"heads({{}}, {self.head})"
            if role != "value":
                wrap = f"rotate_real({wrap}, mask)" if self.closed else f"rotate({wrap}, start)"
            if role != "query" and spec.keeps_scores and not self.closed:
                self.pieces.add("remember")
                last = f", {self.dims.band - 1}" if spec.banded else ""
                wrap = f'remember(state, "{role}", {wrap}, 2{last})'
            yield from self._group(role, wrap)
        yield 'query, key, value = made["query"], made["key"], made["value"]'
        count = spec.query_heads(self.dims)
        if spec.query_heads(self.dims) != self.dims.heads // spec.repeat:
            yield f"key, value = repeated(key, {count}), repeated(value, {count})"
        else:
            self.pieces.discard("repeated")
        yield from self._scores() if spec.keeps_scores else self._linear_attention()
        if spec.differential == "v2":
            yield "second = torch.sigmoid(F.linear(x, self.subtract)).transpose(1, 2).unsqueeze(-1)"
            yield "y = y[:, 0::2] - second * y[:, 1::2]"
        yield "y = y.transpose(1, 2).flatten(2)"
        yield f"return F.linear({self._normalised('y')}, self.out)"

    def _scores(self) -> Iterator[str]:
        spec = self.spec
        self.pieces.add("visible_real" if self.closed else "visible")
        band = f", {self.dims.band}" if spec.banded else ""
        seen = f"visible_real(x, mask{band})" if self.closed else f"visible(query, key{band})"
        if spec.nonlinearity == genes.SOFTMAX:
            yield f"y = F.scaled_dot_product_attention(query, key, value, attn_mask={seen})"
            return
        self.constants.add("HEAD")
        scores = _ACTIVATIONS.get(spec.nonlinearity, "{}").format(f"query @ key.mT * {self.head}**-0.5")
        yield f"y = ({scores} * {seen}) @ value"

    def _linear_attention(self) -> Iterator[str]:
        self.pieces.add("scan")
        self.constants |= {"CHUNK", "HEAD"}
        yield f"value, key, query = (x.transpose(1, 2) for x in (value, key, query * {self.head}**-0.5))"
        yield "y = scan(value, key, query, x.new_zeros(value.shape[:3]), state).transpose(1, 2)"

    def _recurrence(self) -> Iterator[str]:
        self.pieces |= {"scan"}
        self.constants |= {"CHUNK", "HEAD"}
        for role in ("value", "gate", "write"):
            yield from self._group(role)
        decay = [
            "step = " + self._real('F.softplus(F.linear(x, weights["decay"].weight) + weights["decay"].bias)'),
            'log_decay = (-weights["decay"].log_rate.exp() * step).clamp_min(-20.0)',
            'made["decay"] = log_decay, step',
        ]
        yield from self._unless_borrowed("decay", decay)
        yield from self._group("read", beside="direct")
        yield 'value, (log_decay, step), (read, direct) = made["value"], made["decay"], made["read"]'
        yield f"steps = value.unflatten(-1, (-1, {self.head})) * step.unsqueeze(-1)"
        yield 'y = scan(steps, made["write"].unsqueeze(2), read.unsqueeze(2), log_decay, state)'
        yield "y = y.flatten(2) + direct * value"
        yield f'return F.linear({self._normalised("y")} * F.silu(made["gate"]), self.out)'

    def _delta(self) -> Iterator[str]:
        self.pieces |= {"delta_scan", "unit"}
        self.constants |= {"CHUNK", "HEAD"}
        for role in ("value", "gate", "write", "read"):
            yield from self._group(role)
        decay = [
            'rates, strengths = F.linear(x, weights["decay"].weight).chunk(2, -1)',
            "step = " + self._real('F.softplus(rates + weights["decay"].bias)'),
            'log_decay = (-weights["decay"].log_rate.exp() * step).clamp_min(-20.0)',
            'made["decay"] = log_decay, ' + self._real("strengths.sigmoid()"),
        ]
        yield from self._unless_borrowed("decay", decay)
        heads = f"made[role].unflatten(-1, (-1, {self.head}))"
        yield f'value, key, query = ({heads} for role in ("value", "write", "read"))'
        yield f'y = delta_scan(value, unit(key), unit(query) * {self.head}**-0.5, *made["decay"], state).flatten(2)'
        yield f'return F.linear({self._normalised("y")} * F.silu(made["gate"]), self.out)'

    def _convolution(self) -> Iterator[str]:
        spec, dims = self.spec, self.dims
        for role in ("value", "write", "read"):
            yield from self._group(role)
        yield from self._unless_borrowed("filter", ['made["filter"] = weights["filter"]'])
        yield "inputs = " + self._real('made["write"] * made["value"]')
        if spec.groups["filter"].parametrisation == genes.EXPLICIT:
            self.pieces.add("taps")
            yield 'y = short_convolution(inputs, made["filter"].taps, state, "inputs")'
        elif dims.long_filter == "modal" and not spec.banded:
            self.pieces.add("modal_filter")
            yield 'y = long_filter(made["filter"], inputs, state)'
        else:
            self.pieces |= {"remember", "convolve", "modal_kernel" if dims.long_filter == "modal" else "mlp_kernel"}
            if dims.long_filter == "mlp":
                self.constants |= {"POSITIONS"}
            last = f", {dims.band - 1}" if spec.banded else ""
            length = f"min({dims.band}, everything.shape[1])" if spec.banded else "everything.shape[1]"
            yield f'everything = remember(state, "inputs", inputs, 1{last})'
            yield f'y = convolve(everything, kernel_of(made["filter"], {length}))[:, -inputs.shape[1] :]'
        yield 'return F.linear(made["read"] * y, self.out)'

    def _normalised(self, value: str) -> str:
        if not self.spec.normalised:
            return value
        self.pieces.add("normalised")
        return f"normalised({value}, self.norm)"


def _shapes(parameters: dict[str, tuple[int, ...]]) -> str:
    return "{" + ", ".join(f'"{name}": {shape}' for name, shape in parameters.items()) + "}"


def closed_liv(sheet: SourceSheet, name: str, spec: OperatorSpec, dims: Dimensions) -> str:
    """The expression of an operator that owns its groups; a literal difference is two of the plain ones."""
    kind = replace(spec, differential="none") if spec.differential == "literal" else spec
    made = sheet.write(
        ("liv", kind, dims.model_dump_json()),
        name.removesuffix("-Diff"),
        lambda free: _class(sheet, free, name, kind, dims),
    )
    if spec.copies == 1:
        return f"{made}()"
    return f"{sheet.add(DIFFERENCE)}({made}(), {made}())"


def _class(sheet: SourceSheet, free: str, title: str, spec: OperatorSpec, dims: Dimensions) -> str:
    one = OperatorSource(free, title.removesuffix("-Diff"), spec, dims, closed=True).written()
    if "CHUNK" in one.constants:
        sheet.add(Fragment("CHUNK", CHUNK.format(dims.chunk)))
    for fragment in (*fragments(one.pieces), WEIGHTS_CLASS):
        sheet.add(fragment)
    return "\n".join(one.lines)
