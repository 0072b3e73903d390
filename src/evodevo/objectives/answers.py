"""What a network of separate samples answers, and what its answers cost: all measured on validation samples."""

from __future__ import annotations

from evodevo.objectives.base import Objective, number

ERROR = Objective(
    name="error",
    unit="share",
    direction="minimise",
    needs="trained",
    summary="1 - accuracy on validation samples, mean over the outputs (of labels: 1 - micro F1)",
    measure=lambda subject: number(subject.held_out.error),
    judges="network",
)
ACCURACY = Objective(
    name="accuracy",
    unit="share",
    direction="maximise",
    needs="trained",
    summary="accuracy on validation samples, mean over the outputs (of labels: micro F1)",
    measure=lambda subject: number(subject.held_out.accuracy),
    judges="network",
)
LOSS = Objective(
    name="loss",
    unit="nats",
    direction="minimise",
    needs="trained",
    summary="validation loss, mean over the outputs",
    measure=lambda subject: number(subject.held_out.loss),
    judges="network",
)
EXECUTED_FLOPS = Objective(
    name="executed_flops",
    unit="flops",
    direction="minimise",
    needs="trained",
    summary="forward FLOPs per validation sample that are really computed, under the network's own inference mode",
    measure=lambda subject: number(subject.held_out.executed_flops),
    judges="network",
)
NETWORK_PARAMETERS = Objective(
    name="network_parameters",
    unit="parameters",
    direction="minimise",
    needs="trained",
    summary="all trainable numbers of the network, inputs and outputs included",
    measure=lambda subject: number(subject.held_out.parameters),
    judges="network",
)
