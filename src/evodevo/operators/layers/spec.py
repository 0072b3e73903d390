"""What can be a layer of a network, as plain data: a kind and its sizes.

``operators/layers/build.py`` builds them; ``operators/layers/cost.py``
states what they cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from evodevo.settings import Settings

if TYPE_CHECKING:
    from evodevo.h_model.spec import HModelStructure
    from evodevo.module_zoo.modules.spec import ZooModule


RouterHead = Literal["feedforward", "linear", "channel", "constant", "independent"]


class _Layer(Settings):
    """What every layer has.

    Attributes:
        width: channels d_i inside, where they are not those of the messages: adapters d -> d_i -> d are put around.
        router: the routing head of this layer in an H-Model, where it is not the model's (``RouterStructure.head``).
    """

    width: int | None = Field(default=None, ge=1, le=65536)
    router: RouterHead | None = None


class TransformerLayer(_Layer):
    """A pre-norm transformer block: attention and feed-forward, each with its norm and residual (H-Model 6.2).

    Attributes:
        heads: of attention; must divide the width.
        feedforward: hidden units; twice the width if left out (H-Model 6.4: 128 and 256).
        dropout: after attention and feed-forward, while training.
    """

    kind: Literal["transformer"] = "transformer"
    heads: int = Field(default=4, ge=1, le=1024)
    feedforward: int | None = Field(default=None, ge=1, le=1 << 20)
    dropout: float = Field(default=0.0, ge=0, lt=1)


class MLPLayer(_Layer):
    """A token-wise pre-norm feed-forward block: nothing passes between tokens."""

    kind: Literal["mlp"] = "mlp"
    hidden: int | None = Field(default=None, ge=1, le=1 << 20)
    dropout: float = Field(default=0.0, ge=0, lt=1)


class ConvolutionLayer(_Layer):
    """A pre-norm residual convolution over the sequence; centred, or into the past only where the model is causal.

    Attributes:
        kernel: taps; odd.
    """

    kind: Literal["convolution"] = "convolution"
    kernel: int = Field(default=3, ge=1, le=255)


class LSTMLayer(_Layer):
    """A pre-norm residual LSTM; both ways unless the model is causal."""

    kind: Literal["lstm"] = "lstm"


class LIVLayer(_Layer):
    """A linear input-varying operator in a pre-norm residual block; two copies that run both ways unless causal.

    Attributes:
        operator: name of a LIV class ("SA-1", "Rec-2", "GConv-1", "GMemless", "Mamba", ...) or the operator genome as
            five integers joined by dots ("3.2.1.2.1").
        head_size, band: see ``spaces.operator.Dimensions``.
    """

    kind: Literal["liv"] = "liv"
    operator: str = Field(default="Rec-1", pattern=r"^[A-Za-z0-9.\-]{1,40}$")
    head_size: int | None = Field(default=None, ge=2, le=512)
    band: int = Field(default=64, ge=2, le=65536)


class PretrainedLayer(_Layer):
    """One encoder layer of a pretrained Hugging Face model.

    Attributes:
        path: a folder with config.json and model.safetensors, or a name in the local Hugging Face cache.
        index: of the layer, from 0; 0 is the first block after the embeddings.
        train: ``none`` freezes it; ``all`` fine-tunes it.
        digest: SHA-256 of the safetensors file; checked where it is given, filled in by the run that first reads it.
    """

    kind: Literal["pretrained"] = "pretrained"
    path: str = Field(min_length=1, max_length=4096)
    index: int = Field(ge=0, le=1023)
    train: Literal["none", "all"] = "none"
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class SpanLayer(_Layer):
    """A closed span of an evolved backbone: LIVs first to last, whose borrowed features all lie in the span.

    Attributes:
        genome: envelope of the backbone genome.
        space: settings of its space (``BackboneSettings`` as plain data).
        first, last: positions of the span, both included.
    """

    kind: Literal["span"] = "span"
    genome: dict[str, Any]
    space: dict[str, Any]
    first: int = Field(ge=0, le=100_000)
    last: int = Field(ge=0, le=100_000)


class NestedLayer(_Layer):
    """An H-Model as a layer of another one: one latent input, one output, no heads.

    Attributes:
        structure: of the inner one.
    """

    kind: Literal["h_model"] = "h_model"
    structure: HModelStructure


class GenotypeLayer(_Layer):
    """A module of a zoo: any graph of typed nodes, under an id that stays when its place moves.

    In a causal H-Model every node of it must look at one position alone.

    Attributes:
        module: id, genotype and descent; its seed is that of growth: an H-Model draws weights of what it begins with
            from its own seed.
    """

    kind: Literal["genotype"] = "genotype"
    module: ZooModule


Layer = Annotated[
    TransformerLayer
    | MLPLayer
    | ConvolutionLayer
    | LSTMLayer
    | LIVLayer
    | PretrainedLayer
    | SpanLayer
    | NestedLayer
    | GenotypeLayer,
    Field(discriminator="kind"),
]
MAX_NESTING = 3
