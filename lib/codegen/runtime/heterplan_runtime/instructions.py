"""The instructions of a Program, each with its class and phase (InstructionClass and Phase in
lib/ir/Program.h). Written by scripts/instructions.py from lib/ir/Instructions.def; do not edit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionInfo:
    kind: str  # compute, send, receive, collective
    phase: str  # forward, backward, iteration: of no micro-batch


INSTRUCTIONS = {
    "load": InstructionInfo("compute", "forward"),  # take the samples of a micro-batch (inputs and targets)
    "receive": InstructionInfo("receive", "forward"),  # activations from a rank of the stage before
    "lookup": InstructionInfo("collective", "forward"),  # rows of sparse tables, exchanged over the group
    "forward": InstructionInfo("compute", "forward"),  # forward pass of the stage
    "send": InstructionInfo("send", "forward"),  # activations to a rank of the stage after
    "receiveGradient": InstructionInfo("receive", "backward"),  # gradients from a rank of the stage after
    "backward": InstructionInfo("compute", "backward"),  # backward pass of the stage
    "lookupGradient": InstructionInfo("collective", "backward"),  # gradients of those rows, to the ranks that hold them
    "gradientReduceScatter": InstructionInfo("collective", "backward"),  # sum of a micro-batch's parameter gradients over the group, a slice to each member
    "sendGradient": InstructionInfo("send", "backward"),  # gradients to a rank of the stage before
    "allReduce": InstructionInfo("collective", "iteration"),  # sum of the parameter gradients over the group
    "reduceScatter": InstructionInfo("collective", "iteration"),  # sum of the parameter gradients over the group, a slice to each member
    "step": InstructionInfo("compute", "iteration"),  # optimizer step, gradients cleared
    "allGather": InstructionInfo("collective", "iteration"),  # slices of the parameters that the members of the group have updated
}
