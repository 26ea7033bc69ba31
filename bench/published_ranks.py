"""Groups of published rows that a plan puts in another order than the measurements, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from published_rows import Row

CLOSE = 1.02  # of two measured rates that are taken for equal
FAR = 0.3  # error of a row that no order can be expected of
NOISE, DRAWS = 0.02, 1000  # of measured rates; draws of the noise


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    ranks = [np.argsort(np.argsort(each)) for each in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1]) if len(a) > 2 else float("nan")


def with_noise(rates: np.ndarray) -> float:
    """The mean rank correlation of rates with themselves under noise: what a perfect model would have."""
    random = np.random.default_rng(1)
    return float(np.mean([
        rank_correlation(rates, rates * np.exp(random.normal(0, NOISE, len(rates)))) for _ in range(DRAWS)
    ]))  # fmt: skip


def wrong_pairs(measured: np.ndarray, predicted: np.ndarray) -> list[tuple[int, int]]:
    return [
        (a, b)
        for a, b in combinations(range(len(measured)), 2)
        if (measured[a] - measured[b]) * (predicted[a] - predicted[b]) <= 0
    ]


def order_line(name: str, measured: np.ndarray, predicted: np.ndarray) -> str:
    far = np.abs(measured / predicted - 1) > FAR
    pairs = wrong_pairs(measured, predicted)
    with_far = [pair for pair in pairs if far[list(pair)].any()]
    close = [
        (a, b) for a, b in pairs
        if (a, b) not in with_far and max(measured[a], measured[b]) < CLOSE * min(measured[a], measured[b])
    ]  # fmt: skip
    others = rank_correlation(measured[~far], predicted[~far])
    return (
        f"| {name} | {len(measured)} | {rank_correlation(measured, predicted):.2f} | {with_noise(measured):.2f} | "
        f"{len(pairs)} | {len(with_far)} | {len(close)} | {'' if np.isnan(others) else f'{others:.2f}'} |"
    )


def order_lines(
    rows: Sequence[Row], seconds: Sequence[float], keys: Sequence[Callable[[Row], str]], least: float = 0.95
) -> list[str]:
    """A table of the groups of at least three rows with a rank correlation below `least`."""
    lines = []
    for key in keys:
        for group in sorted({key(row) for row in rows}):
            own = [i for i, row in enumerate(rows) if key(row) == group]
            measured = np.array([rows[i].batch / rows[i].seconds for i in own])
            predicted = np.array([rows[i].batch / seconds[i] for i in own])
            if len(own) > 2 and rank_correlation(measured, predicted) < least:
                lines.append(order_line(group, measured, predicted))
    head = [
        f"Groups with a Spearman below {least}:", "",
        "| group | rows | Spearman | of the rows with noise of 2 % | pairs in the wrong order | "
        "with a row that is off by 30 % | others, measured within 2 % | Spearman without the rows off by 30 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    return [*head, *lines, ""] if lines else []
