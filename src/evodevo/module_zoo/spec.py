"""A multimodal network with a zoo of modules as plain data (Architect Thyself; docs/spec/architect_thyself.md).

Numbers in brackets are equations of the paper; docs/spec/architect_thyself.md states the decisions where it is open.
The printed forms stay as options, and ``paper`` sets everything that section 4.1 of the paper states.

Legend: B samples, L positions of the fused sequence, d width, N modules, H heads, K modules that a sample may use.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.module_zoo.modules.spec import ModuleOutputPool, ZooModule
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.settings import Settings

Gate = Literal["softmax", "sparsemax", "entmax15", "entmax", "relu", "gumbel"]


class StatisticsStructure(Settings):
    """The summary of a whole modality: s = W [mean; vec(U' Sigma U)] (eqs. 29 to 31, 34 to 36).

    Attributes:
        kind: ``mean_covariance``, ``mean``, or ``cls`` (the first token).
        rank: k of U, whose columns are kept orthonormal; q = k (k + 1) / 2 numbers.
        root: signed square root and layer norm on the covariance.
    """

    kind: Literal["mean_covariance", "mean", "cls"] = "mean_covariance"
    rank: int = Field(default=16, ge=1, le=256)
    root: bool = False


class FusionStructure(Settings):
    """The fusion of two modalities to one sequence F and one vector f (eqs. 39 to 43;
    docs/spec/architect_thyself.md#fusion).

    Attributes:
        kind: ``asym_residual`` F = norm(Z_v + attention(Z_v, Z_t, Z_t)); ``paper`` as printed, where values come from
            the text alone; ``symmetric`` (both ways, side by side); ``concat`` (both sequences side by side);
            ``gmu`` (gated multimodal unit); ``bilinear`` (low rank).
        query: modality whose tokens are the queries. ``text`` swaps the roles.
        values: modality whose tokens are keys and values: the ``other`` modality's, or its ``own`` (Table 3, block C).
        heads: H_f.
        projection: output map after the heads; false as printed (eq. 41).
        gate: g of eq. 42: one number per sample, one per channel, or one half.
        temperature: learned, or 1.
        norm: layer norm on the fused sequence; false takes it away (Table 3, block B).
        relative_positions: learned bias by (patch, token) position.
        concat_query: F also holds the query's own tokens side by side (the base of Table 3, blocks B and C).
        rank: rank of ``bilinear``.
    """

    kind: Literal["asym_residual", "paper", "symmetric", "concat", "gmu", "bilinear"] = "asym_residual"
    query: Literal["image", "text"] = "image"
    values: Literal["other", "own"] = "other"
    heads: int = Field(default=4, ge=1, le=64)
    projection: bool = True
    gate: Literal["sample", "channel", "half"] = "sample"
    temperature: Literal["learned", "one"] = "learned"
    norm: bool = True
    relative_positions: bool = False
    concat_query: bool = False
    rank: int = Field(default=32, ge=1, le=4096)


class ZooRouterStructure(Settings):
    """The router: the weights of the modules per sample (eqs. 8 to 10, 53 to 61;
    docs/spec/architect_thyself.md#router).

    Attributes:
        kind: ``graph_attention``; ``mean`` (no choice); ``mlp_gate`` (a small network on f alone);
            ``architecture`` (learned weights that no input changes, as in DARTS).
        heads: H_r.
        gate: gate from logits to weights, while training and afterwards. ``entmax`` learns its alpha; ``relu`` weights
            are divided by their sum.
        synergy: gain of a module's logit from other modules: ``off``; ``similar`` as printed; ``complement`` its
            negative; ``bilinear`` with a learned form.
        synergy_self: j = m counts in the sum (as printed).
        synergy_activation: q_int.
        contribution: lambda_c, factor of the standardised contribution (eq. 10); 0 switches it off.
        temperature: learned, or 1.
        head_mix: ``average``, or ``learned`` (one number per head, on logits).
        values: ``concat`` mixes in each head and puts the heads side by side; ``paper`` averages them (eq. 60).
        residual: z_r is added to f.
        norm: layer norm on module outputs before keys and values.
        identity: W_q, W_k, W_v are the identity (Table 3, "Module Interconnection Weights Removed").
        top_k: K, number of modules that count for a sample in evaluation (eq. 61); None for all that the gate lets
            through.
        train_top_k: the same while training: ``off``, or with a straight-through gradient, noisy or not.
        keys: source of the keys: module ``output`` (as printed; every module runs); ``genotype`` and
            ``predictor`` decide first and call only the chosen modules. ``predictor`` learns the weights of ``output``
            from f, and calls K + 1 in evaluation.
        predictor_hidden: units of the predictor and of ``mlp_gate``; d if left out.
    """

    kind: Literal["graph_attention", "mean", "mlp_gate", "architecture"] = "graph_attention"
    heads: int = Field(default=4, ge=1, le=64)
    gate: Gate = "sparsemax"
    synergy: Literal["off", "similar", "complement", "bilinear"] = "similar"
    synergy_self: bool = False
    synergy_activation: Literal["identity", "relu", "tanh"] = "identity"
    contribution: float = Field(default=0.1, ge=0, le=100)
    temperature: Literal["learned", "one"] = "learned"
    head_mix: Literal["average", "learned"] = "average"
    values: Literal["concat", "paper"] = "concat"
    residual: bool = True
    norm: bool = True
    identity: bool = False
    top_k: int | None = Field(default=4, ge=1, le=1024)
    train_top_k: Literal["off", "straight_through", "gumbel"] = "off"
    keys: Literal["output", "genotype", "predictor"] = "output"
    predictor_hidden: int | None = Field(default=None, ge=1, le=65536)


class ContributionStructure(Settings):
    """The update of the contribution C_m of a module (eqs. 11, 66 to 69, 90).

    C_m <- (1 - rate) C_m + rate (usage u_m / max u + impact max(0, d_m) / max max(0, d)), where u is the mean router
    weight of a step and d the gain in loss by the module at the last probe; without a probe, or where no module gains,
    the second term is 0 for all.

    Attributes:
        rate: rho.
        usage, impact: w_beta and w_l.
    """

    rate: float = Field(default=0.1, gt=0, le=1)
    usage: float = Field(default=0.5, ge=0)
    impact: float = Field(default=0.5, ge=0)


class ZooLosses(Settings):
    """The weights of the terms that are added to the task's loss (eq. 89). 0 switches a term off.

    Source: docs/spec/architect_thyself.md#losses.

    Attributes:
        align: InfoNCE between the statistics of matched pairs (eq. 38).
        align_both: text to image and image to text; false as printed.
        align_temperature: start of the learned temperature, which stays in [0.01, 1].
        load: squared distance of the mean softmax of the logits from uniform (eq. 63).
        budget: ((n_eff - K) / N)^2, n_eff = 1 / sum alpha^2 (eq. 64); off where there is no K.
        entropy: entropy of the softmax of the logits, subtracted (eqs. 62, 85).
        entropy_until: share of the training after which that weight is 0; it falls linearly.
        orthogonality: cos^2 between the outputs of two modules, mean over pairs (eq. 86).
        orthogonality_per_sample: mean over samples of cos^2; false takes batch means first, as printed.
        complexity: gated parameters as a share of the pool's (eq. 87).
        replay: cross-entropy on replayed samples after an edit (eq. 88); without edits there are none.
        z: mean squared log-sum-exp of the logits.
        predictor: KL from the weights of ``output`` keys to the predictor's.
    """

    align: float = Field(default=0.1, ge=0)
    align_both: bool = True
    align_temperature: float = Field(default=0.07, ge=0.01, le=1)
    load: float = Field(default=0.01, ge=0)
    budget: float = Field(default=0.01, ge=0)
    entropy: float = Field(default=0.01, ge=0)
    entropy_until: float = Field(default=0.3, gt=0, le=1)
    orthogonality: float = Field(default=0.01, ge=0)
    orthogonality_per_sample: bool = True
    complexity: float = Field(default=0.01, ge=0)
    replay: float = Field(default=0.5, ge=0)
    z: float = Field(default=1e-3, ge=0)
    predictor: float = Field(default=1.0, ge=0)


class ZooStructure(Settings):
    """The whole network, without inputs and outputs, which are the task's.

    Attributes:
        width: d.
        without: modalities of the task that are not read: ``image``, ``text`` (Table 3, block B).
        extractors: input -> its extractor; inputs without an entry are read by ``extractor``.
        extractor: extractor of inputs without an entry.
        statistics: settings of the summary of a modality.
        fusion: fusion of image and text; a single modality passes as it is.
        modules: the zoo.
        disabled: ids of modules that are there but neither run nor count.
        mode: modules read the fused ``sequence``, or f cut into ``chunks`` pseudo-tokens (``vector``).
        chunks: number of pseudo-tokens of ``vector``; divides the width.
        pool: pooling of a module's output sequence to u: ``mean``; ``attention`` with a learned query; ``positions``,
            the mean of a learned linear map of each position, which starts as the mean.
        readout: number of hidden units of the layer between z_r and the heads; 0 for none.
        router: settings of the router.
        contribution: settings of the contributions.
        losses: weights of the terms that are added to the task's loss.
        dropout: probability of dropout on the embeddings of each modality (4.1).
        missing: a learned token replaces an input that a sample lacks; false refuses such samples.
        modality_dropout: share of training samples that lose one of their modalities.
    """

    width: int = Field(default=64, ge=4, le=65536)
    without: tuple[Literal["image", "text"], ...] = ()
    extractors: dict[str, ExtractorStructure] = Field(default_factory=dict)
    extractor: ExtractorStructure = ExtractorStructure()
    statistics: StatisticsStructure = StatisticsStructure()
    fusion: FusionStructure = FusionStructure()
    modules: tuple[ZooModule, ...] = Field(default=(), max_length=256)
    disabled: tuple[str, ...] = ()
    mode: Literal["sequence", "vector"] = "sequence"
    chunks: int = Field(default=8, ge=1, le=1024)
    pool: ModuleOutputPool = "mean"
    readout: int = Field(default=0, ge=0, le=65536, exclude_if=lambda value: not value)
    router: ZooRouterStructure = ZooRouterStructure()
    contribution: ContributionStructure = ContributionStructure()
    losses: ZooLosses = ZooLosses()
    dropout: float = Field(default=0.1, ge=0, lt=1)
    missing: bool = True
    modality_dropout: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        ids = [module.id for module in self.modules]
        twice = next((name for number, name in enumerate(ids) if name in ids[:number]), None)
        if twice is not None:
            raise ValueError(f"two modules have the id {twice!r}")
        for module in self.modules:
            if module.genotype.width != self.width:
                raise ValueError(
                    f"the module {module.id!r} is made for width {module.genotype.width}, the zoo has {self.width}"
                )
        unknown = next((name for name in self.disabled if name not in ids), None)
        if unknown is not None:
            raise ValueError(f"disabled names {unknown!r}, which is no module; there are {', '.join(ids)}")
        for name, heads in (("fusion", self.fusion.heads), ("router", self.router.heads)):
            if self.width % heads:
                raise ValueError(f"{name}.heads is {heads}, which does not divide the width {self.width}")
        if self.mode == "vector" and self.width % self.chunks:
            raise ValueError(f"chunks is {self.chunks}, which does not divide the width {self.width}")
        return self

    def extractor_of(self, name: str) -> ExtractorStructure:
        """Extractor of the input with this name."""
        return self.extractors.get(name, self.extractor)

    @property
    def live(self) -> tuple[ZooModule, ...]:
        """The modules that run and count, in order."""
        return tuple(module for module in self.modules if module.id not in self.disabled)
