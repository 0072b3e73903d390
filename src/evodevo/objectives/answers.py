"""Objectives of trained networks on separate samples, measured on validation samples: quality and executed FLOPs."""

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
AUC = Objective(
    name="auc",
    unit="share",
    direction="maximise",
    needs="trained",
    summary="area under the ROC curve on validation samples: binary, or the mean over classes or labels",
    measure=lambda subject: number(subject.held_out.metric("auc")),
    judges="network",
    metric="auc",
)
F1 = Objective(
    name="f1",
    unit="share",
    direction="maximise",
    needs="trained",
    summary="F1 on validation samples, the mean over classes or labels (macro)",
    measure=lambda subject: number(subject.held_out.metric("f1_macro")),
    judges="network",
    metric="f1_macro",
)
