"""Samples that can be learned, for bench/real_task.py and `make demo`: each a function of its number alone."""

from __future__ import annotations

import torch
from torch import Tensor

IMAGE, CLASSES = 16, 10
TOKENS, LENGTH = 16, 24
HELD_OUT = 1 << 40  # evaluations are of samples from here on
SURE = 0.9  # how often the next token is the one that the two before it say
IGNORED = -100


def _generator(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number * 2654435761 % (1 << 62) + 1)


def _patterns() -> Tensor:
    coarse = torch.randn(CLASSES, 3, 4, 4, generator=_generator(7))
    return torch.nn.functional.interpolate(coarse, size=IMAGE, mode="bilinear")


PATTERNS = _patterns()
FOLLOWS = torch.randint(0, TOKENS, (TOKENS, TOKENS), generator=_generator(11))


def image(number: int) -> tuple[Tensor, int]:
    """A pattern at some place, of some strength, in noise."""
    draw = _generator(number)
    label = int(torch.randint(0, CLASSES, (), generator=draw))
    shifts = torch.randint(-2, 3, (2,), generator=draw).tolist()
    strength = 0.7 + 0.6 * torch.rand((), generator=draw)
    noise = torch.randn(3, IMAGE, IMAGE, generator=draw)
    return PATTERNS[label].roll(shifts, (1, 2)) * strength + noise, label


def sentence(number: int) -> Tensor:
    draw = _generator(number)
    tokens = torch.randint(0, TOKENS, (LENGTH + 1,), generator=draw)
    kept = torch.rand(LENGTH + 1, generator=draw) < SURE
    for place in range(2, LENGTH + 1):
        if kept[place]:
            tokens[place] = FOLLOWS[tokens[place - 2], tokens[place - 1]]
    return tokens


def _numbers(step: int, samples: list[int], first: int = 0) -> list[int]:
    return [first + (step << 16) + sample for sample in samples]


def _images(numbers: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    made = [image(number) for number in numbers]
    return {"image": torch.stack([x for x, _ in made])}, torch.tensor([label for _, label in made])


def _sentences(numbers: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    """Nothing says what the first token follows: that target does not count."""
    made = torch.stack([sentence(number) for number in numbers])
    targets = made[:, 1:].clone()
    targets[:, 0] = IGNORED
    return {"tokens": made[:, :-1].contiguous()}, targets


class Pictures:
    """As a data set."""

    def __init__(self, first: int) -> None:
        self._first = first

    def __len__(self) -> int:
        return 1 << 16

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return image(self._first + number)


PICTURES, UNSEEN_PICTURES = Pictures(0), Pictures(HELD_OUT)


def images(step: int, samples: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    return _images(_numbers(step, samples))


def other_images(step: int, samples: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    return _images(_numbers(step, samples, HELD_OUT))


def sentences(step: int, samples: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    return _sentences(_numbers(step, samples))


def other_sentences(step: int, samples: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    return _sentences(_numbers(step, samples, HELD_OUT))
