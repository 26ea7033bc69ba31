#!/usr/bin/env python3
"""Keeps words out that a reader of Alpa, Megatron or PyTorch would not know, and what they became.

    check_words.py ROOT         check code, options, messages and documents below ROOT
    check_words.py --self-test  prove that each word is found, and each of its fair uses is not

A word is a pattern, what to say instead, where it counts (a pattern of paths) and fair uses, which
are taken out of a line before it is looked at.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

FOLDERS = ("lib", "tools", "test", "bench", "docs", "scripts", "profiles", "python", "cmake")
ENDINGS = (".cpp", ".h", ".def", ".cu", ".py", ".md", ".sh", ".test", ".proto", ".yaml", ".txt", ".json")
# This list, what has changed its name, and data that others wrote.
EXEMPT = re.compile(r"^(test/words/|CHANGELOG\.md|test/fuzz/corpus/|test/data/models/|test/conformance/operator-tests\.txt)")


@dataclass(frozen=True)
class Word:
    pattern: str
    instead: str
    example: str  # a line in which it is found
    where: str = ""  # paths that match; "": everywhere
    fair: str = "(?!)"  # uses that are fine

    def found_in(self, path: str, line: str) -> bool:
        if not re.search(self.where, path):
            return False
        return re.search(self.pattern, re.sub(self.fair, "", line)) is not None


WORDS = [
    Word(r"(?i)wish", "constraint, requirement", "the user's wishes", fair=r"(?i)(hard)?swish"),
    Word(r"(?i)clash", "conflict", "wishes that clash"),
    Word(r"\b[Pp]ace[ds]?\b|[a-z]Pace\b|\bPace[A-Z]", "bottleneck stage time, steady-state throughput", "sets the pace"),
    Word(r"PriceTable|priceStage|[Pp]rice of time", "LayerTimes, stageCost (a price is money)", "PriceTable table;"),
    Word(r"SingleKind|kinds? of device", "device class, single-type baselines", "each kind of device"),
    Word(r"\b[Pp]ricings?\b", "iteration model", "where the pricing is steady"),
    Word(r"--cost-model", "--iteration-model", "heterplan compile --cost-model heterps",
         fair=r'addText\(command, "--cost-model"|readChoice\("--cost-model"|/// --iteration-model, or --cost-model with'),
    Word(r"[Pp]rogrammes?\b|IntegerProgram|IterationProgram|ProgramSearch", "MILP, model (a Program is what ranks execute)",
         "an integer programme"),
    Word(r"Recomputer|RecomputedStage|RecomputedReplica|\bRecomputation recomputed", "re-evaluation", "RecomputedStage facts;"),
    Word(r"ProductEnvelope", "bilinear outer approximation", "class ProductEnvelope"),
    Word(r"(?i)layout", "device-type assignment", "the best layout", where=r"^lib/search/|^docs/rationale/search"),
    Word(r"(?i)\bsymbols?\b", "action", "each symbol of the policy", where=r"^lib/search/"),
    Word(r"\bMeter\b", "search budget", "Meter meter(options);"),
    Word(r"(?i)yardstick", "reference kernel", "the yardstick says"),
    Word(r"(?i)\bvisits?\b", "measurement session", "three visits of each layer", where=r"rofile|fidelity|whole_step"),
    Word(r"(?i)circumstances", "environment", "the circumstances of the measurement"),
    Word(r"\bBanks?\b|\bbanks?\b", "grouped embedding", "a bank of tables"),
    Word(r"give_gradients|_give_", "push gradients", "table.give_gradients(rows)"),
    Word(r"\b_patient\b|patient group", "long-timeout group", "self._patient = group"),
    Word(r"(?i)replica_?sums?\b|replica_?sum_?bytes", "in-pass all-reduce", "layer.replicaSums = 2;"),
    Word(r"\bFronts?\b|\bFront[A-Z]|\b[a-z]+Front\b|\bfronts\b|\b[Aa] front\b|[Tt]he front of (cost|money)", "Pareto front",
         "the front of money against speed", fair=r"\w*Pareto ?[Ff]ronts?\w*|paretoFront|fromFront"),
    Word(r"createUnique\w+|fs::createTemporaryFile|writeFileAtomically", "the functions of support/TemporaryNames.h, which take % literally",
         "sys::fs::createUniqueFile(path)", where=r"^(lib|tools)/", fair=r"LLVM's createUnique\w+"),
]


def sources(root: Path):
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        top = name.split("/")[0]
        known = top in FOLDERS or name in ("README.md", "CONTRIBUTING.md")
        if known and path.is_file() and path.suffix in ENDINGS and not EXEMPT.match(name):
            yield name, path.read_text(encoding="utf-8", errors="replace").splitlines()


def check(root: Path) -> list[str]:
    problems = []
    for name, lines in sources(root):
        for number, line in enumerate(lines, 1):
            problems += [f"{name}:{number}: error: '{re.search(word.pattern, line)[0]}': say {word.instead}"
                         for word in WORDS if word.found_in(name, line)]
    return problems


FAIR = [
    "a HardSwish activation", "the namespace of the workspace", "Pareto front", "the front of the list",
    'a price per hour', "a Program is what ranks execute", "the layers at the front, at least the first block",
]


def self_test() -> list[str]:
    failures = []
    for word in WORDS:
        where = {"^lib/search/|^docs/rationale/search": "lib/search/a.cpp", "^lib/search/": "lib/search/a.cpp",
                 "rofile|fidelity|whole_step": "docs/profiles.md"}.get(word.where, "lib/ir/a.cpp")
        with tree({where: word.example + "\n"}) as root:
            if not any(word.instead in problem for problem in check(root)):
                failures.append(f"'{word.example}' is not found")
    for line in FAIR:
        failures += [f"'{line}' is found by {word.pattern}" for word in WORDS if word.found_in("lib/ir/a.cpp", line)]
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "words: clean")
