"""The Program of a plan at other shares: the same passes in the same order, of other samples, with the
messages between stages that they need. (lib/ir/Lowering.cpp makes it for the shares of the plan.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from .program import Instruction, MicroBatches, RankProgram, SampleRange
from .rank_group import RankGroup
from .shares import scaled

Shares = Mapping[int, Sequence[int]]  # by stage: samples of a full micro-batch, replica by replica


@dataclass(frozen=True)
class Member:
    """The rank of a replica, and its samples of each micro-batch."""

    rank: int
    samples: tuple[SampleRange, ...]


class Division:
    """Who has which samples of a batch of `sizes`: contiguous, in the order of the replicas."""

    def __init__(self, programs: Sequence[RankProgram], sizes: MicroBatches, shares: Shares) -> None:
        """`shares` may be of a larger micro-batch: then their parts of it count."""
        ranks = {
            (part.stage, part.replica): program.rank for program in programs for part in program.parts
        }
        splits = {
            stage: [_ranges(scaled(own, sizes.size(i))) for i in range(sizes.count)]
            for stage, own in shares.items()
        }
        self.sizes = sizes
        self.stages = {
            stage: [
                Member(ranks[stage, replica], tuple(split[replica] for split in splits[stage]))
                for replica in range(len(own))
            ]
            for stage, own in shares.items()
        }

    def common(self, own: SampleRange, stage: int, micro_batch: int) -> Iterator[tuple[int, SampleRange]]:
        """The ranks of `stage` that have samples of `own`, and these."""
        for member in self.stages.get(stage, ()):
            other = member.samples[micro_batch]
            begin, end = max(own.begin, other.begin), min(own.end, other.end)
            if begin < end:
                yield member.rank, SampleRange(begin, end - begin)


def _ranges(shares: Sequence[int]) -> list[SampleRange]:
    begins = [sum(shares[:index]) for index in range(len(shares))]
    return [SampleRange(begin, count) for begin, count in zip(begins, shares, strict=True)]


def stated_shares(programs: Sequence[RankProgram]) -> dict[int, list[int]]:
    """The shares that the plan states."""
    shares: dict[int, dict[int, int]] = {}
    for program in programs:
        for part in program.parts:
            shares.setdefault(part.stage, {})[part.replica] = part.samples.count
    return {stage: [own[i] for i in range(len(own))] for stage, own in sorted(shares.items())}


def resized(program: RankProgram, division: Division) -> RankProgram:
    """`program`, of any shares, with the samples of `division`."""
    own = [division.stages[part.stage][part.replica].samples for part in program.parts]
    parts = tuple(
        replace(part, samples=samples[0]) for part, samples in zip(program.parts, own, strict=True)
    )
    kept = (each for each in program.instructions if not each.is_transfer)
    instructions: list[Instruction] = []
    for (part, micro_batch, phase), group in groupby(kept, _pass):
        if phase == "iteration":
            instructions += group
        else:
            stage, samples = parts[part].stage, own[part][micro_batch]
            instructions += _with_messages(list(group), division, stage, samples, phase)
    return replace(
        program, parts=parts, instructions=tuple(instructions), global_batch=division.sizes.batch
    )


def _pass(instruction: Instruction) -> tuple[int, int, str]:
    return instruction.part, instruction.micro_batch, instruction.info.phase


def _with_messages(
    group: list[Instruction], division: Division, stage: int, samples: SampleRange, phase: str
) -> Iterator[Instruction]:
    """One pass of one micro-batch: what it needs of the stage before (or after) comes just before it
    computes, what it makes leaves at its end."""
    forward = phase == "forward"
    source, target = (stage - 1, stage + 1) if forward else (stage + 1, stage - 1)
    receive, send = ("receive", "send") if forward else ("receiveGradient", "sendGradient")
    for each in group:
        if each.op == phase:
            yield from _messages(receive, each, division, samples, stage, source)
        yield replace(each, samples=samples)
    yield from _messages(send, group[-1], division, samples, stage, target)


def _messages(
    op: str, like: Instruction, division: Division, samples: SampleRange, stage: int, other: int
) -> Iterator[Instruction]:
    for peer, common in division.common(samples, other, like.micro_batch):
        yield replace(
            like, op=op, peer=peer, boundary=min(stage, other), samples=common, group=RankGroup()
        )
