"""The results of the zoo as a document: shares, a table, and the reasons for what is not equal."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path

from entry import WAYS
from train import STEPS, TRAINED_WAYS

MARKS = {"equal": "=", "refused": "refused", "wrong": "WRONG", "no-export": "–"}
Results = dict[str, dict[str, dict]]

HEAD = """# The zoo: outputs of models exported as people export them

`scripts/zoo.sh --outputs` builds the models of `test/zoo` from configurations with random weights, exports each by both of PyTorch's exporters with a symbolic and with a fixed
batch of one, imports the files with default options and writes them in one and in two stages. `=`: the outputs at batches of 1, 2 and 3 are those of the module,
and so are the gradients of all that was trainable (of large models, of a sample; not where the exporter folded batch normalisation). `refused`: the import says why, and which line exports the model so that it can be planned. `–`: the exporter
fails, or its file computes something else than the module by onnxruntime; nothing: not run. Nothing may be WRONG. `*`: what is trained differs, for the reasons below,
which are the allow-list.

"""


def gist(reason: str) -> str:
    """A diagnostic without its place, code and notes."""
    text = re.sub(r"^.*?\[HP\d+\] ", "", reason.split("\n")[0])
    text = re.sub(r"'[^']{40,}'", "'...'", text)
    return re.sub(r"\s+", " ", text).replace("|", "/")[:220]


def shares(results: Results) -> str:
    lines = ["| way | models that export | equal | refused | wrong |", "| --- | --- | --- | --- | --- |"]
    for way in WAYS:
        states = Counter(verdicts[way]["state"] for verdicts in results.values() if way in verdicts)
        all_ = sum(states.values()) - states["no-export"]
        percent = f" ({100 * states['equal'] / all_:.0f} %)" if all_ else ""
        lines.append(
            f"| {way} | {all_} | {states['equal']}{percent} | {states['refused']} |"
            f" {states['wrong']} |"
        )
    return "\n".join(lines)


def row(name: str, verdicts: dict[str, dict]) -> str:
    marks = []
    for way in WAYS:
        if way not in verdicts:
            marks.append("")
            continue
        verdict = verdicts[way]
        notes = verdict.get("faults", []) + verdict.get("remarks", [])
        marks.append(MARKS[verdict["state"]] + (" *" if notes else ""))
    layers = max((verdict.get("layers", 0) for verdict in verdicts.values()), default=0)
    return f"| {name} | {layers or ''} | " + " | ".join(marks) + " |"


def reasons(results: Results) -> list[str]:
    lines = []
    for name, verdicts in results.items():
        for way, verdict in verdicts.items():
            if verdict["state"] != "equal":
                lines.append(f"- {name}, {way}: {verdict['state']}: {gist(verdict['reason'])}")
            notes = verdict.get("faults", []) + verdict.get("remarks", [])
            if notes:
                more = f", and {len(notes) - 1} more like it" if len(notes) > 1 else ""
                lines.append(f"- {name}, {way}: {gist(notes[0])}{more}")
    return lines


def write_table(results: Results, path: Path) -> None:
    header = "| model | layers | " + " | ".join(WAYS) + " |\n| --- | --- |" + " --- |" * len(WAYS)
    rows = "\n".join(row(name, verdicts) for name, verdicts in results.items())
    text = f"{HEAD}Run on {date.today()}.\n\n{shares(results)}\n\n{header}\n{rows}\n\n## Reasons and notes\n\n"
    path.write_text(text + "\n".join(reasons(results)) + "\n")


TRAINING_HEAD = f"""# The zoo: what trains is the user's model

`make zoo` builds the models of `test/zoo` from configurations with random weights. It trains each
module for {STEPS} steps of Adam in double precision, and so what heterplan makes of it in five ways:

| way | file |
| --- | --- |
| module | `heterplan.compile(module)` |
| dynamo | `torch.onnx.export(dynamo=True)` with its optimiser, as by default |
| dynamo-plain | the same with `optimize=False` |
| ts | `torch.onnx.export(dynamo=False)`, which folds constants |
| ts-plain | the same with `do_constant_folding=False` and `TrainingMode.TRAINING` |

`=`: the number of trained parameters, their names and their values are those of the module. The
difference of the values of a tensor is at most 1e-4 of its movement, and that of the losses 1e-6.
`names`: the same but for names, which the exporter has replaced; a note of the planner says so.
`noted`: something else is trained, and a note names it. `refused`: the planner says why, and what
to do. `–`: PyTorch's exporter fails. WRONG: a difference without a note.

"""


def training_mark(verdict: dict) -> str:
    if verdict["state"] == "refused":
        return "refused"
    if verdict["state"] == "no-export":
        return "–"
    if not verdict["differences"]:
        return "="
    if verdict.get("unexplained"):
        return "WRONG"
    return "names" if verdict.get("only_names") else "noted"


def training_shares(results: Results) -> str:
    marks = ("=", "names", "noted", "refused", "WRONG")
    lines = ["| way | planned or refused | " + " | ".join(marks) + " |", "| --- |" + " --- |" * 6]
    for way in TRAINED_WAYS:
        counts = Counter(training_mark(each[way]) for each in results.values() if way in each)
        total = sum(counts[mark] for mark in marks)
        lines.append(f"| {way} | {total} | " + " | ".join(str(counts[mark]) for mark in marks) + " |")
    return "\n".join(lines)


def training_reasons(results: Results) -> list[str]:
    lines = []
    for name, verdicts in results.items():
        for way, verdict in verdicts.items():
            mark = training_mark(verdict)
            if mark in ("refused", "–"):
                lines.append(f"{name}, {way}: {mark}: {gist(verdict['reason'])}")
            elif mark in ("noted", "WRONG"):
                notes = "; ".join(gist(note) for note in verdict.get("named", []))
                lines.append(f"{name}, {way}: {gist('; '.join(verdict['differences'][:2]))}; {notes}")
    return lines


def write_training(results: Results, path: Path) -> None:
    header = "| model | parameters | " + " | ".join(TRAINED_WAYS) + " |\n| --- | --- |" + " --- |" * len(TRAINED_WAYS)
    rows = []
    for name, verdicts in results.items():
        wanted = max((each.get("wanted", 0) for each in verdicts.values()), default=0)
        marks = (training_mark(verdicts[way]) if way in verdicts else "" for way in TRAINED_WAYS)
        rows.append(f"| {name} | {wanted or ''} | " + " | ".join(marks) + " |")
    text = f"{TRAINING_HEAD}Run on {date.today()}, {len(results)} models.\n\n{training_shares(results)}\n\n{header}\n"
    text += "\n".join(rows) + "\n\n## Reasons and notes\n\n```text\n"
    text += re.sub("\x1b\\[[0-9;]*m", "", "\n".join(training_reasons(results))) + "\n```\n"
    path.write_text(text)
