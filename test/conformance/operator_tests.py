"""ONNX's operator tests, from the model file to the numbers that the generated module computes.

Two suites: Debian's libonnx-testdata (932 operator tests and 140 converted modules, opset 17 and
below) and the tests of opset 18 to 23 that PyPI's onnx makes. Each test reaches a state:

    crashed    the importer died
    refused    a diagnostic says why
    imported   but no module is generated; a diagnostic says why
    generated  but it does not compute what it should
    matches    the module computes what the test expects, within ONNX's tolerances

and besides has a cost for each of its operators, or not. operator-tests.txt lists what does not
match, or has no cost.

    operator_tests.py [PATTERN]  prints the state of the tests whose name matches, and the shares
    operator_tests.py --update   writes operator-tests.txt anew
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runtime"))

import generated  # noqa: E402

ALLOWED = HERE / "operator-tests.txt"
DEBIAN = Path("/usr/share/libonnx-testdata/data")
DEBIAN_SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator")
OPSETS = range(18, 24)
TYPES = {
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64",
    "COMPLEX64", "COMPLEX128",
}  # fmt: skip
# Types that NumPy lacks, as the bits that hold them.
BITS = {"bfloat16": (np.int16, torch.bfloat16)}
# Why a module that is generated may differ from what a test expects.
REASONS = {
    r"cast\w*_BFLOAT16": "the file rounds bfloat16 towards zero, ONNX to the nearest",
    r"attention.*_(bf16|fp16)": "PyTorch keeps more digits within a product than the test: the last"
    " bit of half precision differs",
    r"adam_multiple": "the file leaves out the epsilon that its results were computed with",
    r"dft_inverse": "zeros that are float32's noise in the test",
}
# What these compute is random: only shapes and types are compared.
RANDOM = re.compile(r"^(Random.*|Multinomial|Bernoulli)$")


@dataclass(frozen=True)
class Case:
    name: str
    suite: str  # "libonnx" or "opsets 18-23"
    path: Path  # of the model
    model: onnx.ModelProto
    data: Any  # a folder, or (inputs, outputs)
    tolerances: tuple[float, float] = (1e-3, 1e-7)

    def supported(self) -> bool:
        """Whether PyTorch computes with its types."""
        values = [*self.model.graph.input, *self.model.graph.output]
        return all(element_type(value.type) in TYPES for value in values)

    def is_random(self) -> bool:
        return any(
            RANDOM.match(node.op_type) or (node.op_type == "Dropout" and self.trains())
            for node in self.model.graph.node
        )

    def trains(self) -> bool:
        """Whether it tests the training mode of an operator."""
        return "train" in self.name

    def values(self, kind: str) -> Iterator[Any]:
        """Inputs or outputs, in order."""
        if not isinstance(self.data, Path):
            yield from self.data[kind == "output"]
            return
        for index, info in enumerate(getattr(self.model.graph, kind)):
            path = self.data / f"{kind}_{index}.pb"
            if path.exists():
                yield read_value(path, info.type)


@dataclass(frozen=True)
class Verdict:
    state: str
    costed: bool
    reason: str

    def __str__(self) -> str:
        cost = "" if self.costed or self.state in ("crashed", "refused") else ", no cost"
        return self.state + cost

    def line(self, name: str) -> str:
        return f"{name}: {self}: {self.reason}"


def element_type(type_: onnx.TypeProto) -> str:
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        return str(onnx.TensorProto.DataType.Name(type_.tensor_type.elem_type))
    if kind in ("sequence_type", "optional_type"):
        return element_type(getattr(type_, kind).elem_type)
    return kind or "unknown"


def read_value(path: Path, type_: onnx.TypeProto) -> Any:
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    if kind == "optional_type":
        optional = onnx.OptionalProto()
        optional.ParseFromString(path.read_bytes())
        return numpy_helper.to_optional(optional)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def debian_cases() -> Iterator[Case]:
    for suite in DEBIAN_SUITES:
        for path in sorted(DEBIAN.glob(f"{suite}/*/model.onnx")):
            model = onnx.load(path)
            name = f"{suite}/{path.parent.name.removeprefix('test_')}"
            yield Case(name, "libonnx", path, model, path.parent / "test_data_set_0")


def newer_cases(folder: Path) -> Iterator[Case]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for test in sorted(found, key=lambda test: test.name):
        versions = {entry.domain: entry.version for entry in test.model.opset_import}
        if versions.get("") in OPSETS:
            path = folder / f"{test.name}.onnx"
            onnx.save(test.model, path)
            name = f"opset-{versions['']}/{test.name.removeprefix('test_')}"
            tolerances = (test.rtol, test.atol)
            yield Case(name, "opsets 18-23", path, test.model, test.data_sets[0], tolerances)


def to_torch(value: Any, element: str) -> Any:
    """`element`: the type that the model declares; older files hold bfloat16 as uint16."""
    if isinstance(value, (list, tuple)):
        return [to_torch(item, element) for item in value]
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if value is None:
        return None
    value = np.array(value)
    if element == "BFLOAT16" and value.dtype == np.uint16:
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    if value.dtype.name in BITS:
        bits, dtype = BITS[value.dtype.name]
        return torch.from_numpy(value.view(bits)).view(dtype)
    return torch.from_numpy(value)


def difference(found: Any, expected: Any, case: Case) -> str:
    """How a result differs from the expected one; "" where it does not."""
    if isinstance(expected, list) or expected is None:
        if type(found) is not type(expected) or (expected and len(found) != len(expected)):
            return "another kind of value, or another length"
        items = zip(found, expected) if expected else ()
        return next(filter(None, (difference(a, b, case) for a, b in items)), "")
    if not isinstance(found, Tensor):
        return f"the result is no tensor but {type(found).__name__}"
    if found.dtype != expected.dtype:
        return f"the type is {found.dtype}, not {expected.dtype}"
    if found.shape != expected.shape:
        return f"the shape is {list(found.shape)}, not {list(expected.shape)}"
    if case.is_random():
        return ""
    if expected.dtype == torch.bfloat16:
        found, expected = found.float(), expected.float()
    relative, absolute = case.tolerances
    try:
        np.testing.assert_allclose(found.numpy(), expected.numpy(), relative, absolute)
    except AssertionError:
        return "the values differ"
    return ""


def inputs_of(case: Case) -> dict[str, Any]:
    stored = {tensor.name for tensor in case.model.graph.initializer}
    fed = [value for value in case.model.graph.input if value.name not in stored]
    return {
        info.name: to_torch(value, element_type(info.type))
        for info, value in zip(fed, case.values("input"))
    }


def modules_of(case: Case, directory: Path) -> list[torch.nn.Module]:
    stages = generated.stages(generated.load(directory), directory)
    return [stage.train(case.trains()) for stage in stages]


def mismatch(case: Case, directory: Path) -> str:
    """The defect of the generated code, or ""."""
    try:
        stages = modules_of(case, directory)
        inputs = inputs_of(case)
        torch.manual_seed(0)
        with torch.no_grad():
            results = generated.forward(stages, inputs)
        infos = case.model.graph.output
        for info, value in zip(infos, case.values("output"), strict=True):
            if info.name not in results:
                return f"output {info.name} is missing"
            expected = to_torch(value, element_type(info.type))
            if wrong := difference(results[info.name], expected, case):
                return wrong
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        lines = str(error).strip().split("\n")
        return f"{type(error).__name__}: {lines[0]}"
    return ""


def moved(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [moved(item, device) for item in value]
    return None if value is None else value.to(device)


def strays(case: Case, directory: Path) -> str:
    """The part of a matching module that stays on the CPU when it and its inputs are elsewhere. The
    device `meta` stands for any other; where values decide, it cannot tell."""
    stages = [stage.to("meta") for stage in modules_of(case, directory)]
    inputs = {name: moved(value, "meta") for name, value in inputs_of(case).items()}
    try:
        with torch.no_grad():
            results = generated.forward(stages, inputs)
    except NotImplementedError:
        return ""
    except RuntimeError as error:
        return "" if "cannot be called on meta tensors" in str(error) else str(error)
    tensors = [value for value in results.values() if isinstance(value, Tensor)]
    return "a result is on the CPU" if any(t.device.type != "meta" for t in tensors) else ""


def gist(diagnostic: str) -> str:
    """The message without place, code and note."""
    text = re.sub(r"^.*?\[HP\d+\] ", "", diagnostic)
    text = re.sub(r" +(/\S*)? *note: .*$", "", text)
    return text if len(text) <= 160 else text[:157] + "..."


def explained(case: Case, reason: str) -> str:
    """Why the values differ, where people have found out."""
    if reason == "the values differ":
        for pattern, why in REASONS.items():
            if re.search(pattern, case.name):
                return why
    return gist(reason)


def judge(cases: list[Case], folder: Path) -> dict[str, Verdict]:
    outs = [folder / f"out-{index}" for index in range(len(cases))]
    emitted = generated.emit_all([(case.path, out, 1) for case, out in zip(cases, outs)])
    result = {}
    for case, out, job in zip(cases, outs, emitted):
        state, reason = job.state, gist(job.error)
        if state == "generated":
            reason = mismatch(case, out)
            state = "generated" if reason else "matches"
            reason = explained(case, reason)
        if job.uncosted and state != "refused":
            lack = f"{job.uncosted} without a cost"
            reason = f"{reason}; {lack}" if reason else lack
        result[case.name] = Verdict(state, not job.uncosted and state != "refused", reason)
    return result


@dataclass(frozen=True)
class Shares:
    """The fraction of the tests of a suite, in per cent."""

    crashed: int
    imported: float
    costed: float
    matches: float
    supported_match: float  # of those whose types PyTorch computes with

    def __str__(self) -> str:
        return (
            f"{self.crashed} crashed, {self.imported:.1f}% imported, {self.costed:.1f}% with costs,"
            f" {self.matches:.1f}% match; {self.supported_match:.1f}% of those whose types PyTorch"
            " computes with"
        )


def shares(cases: list[Case], verdicts: dict[str, Verdict]) -> Shares:
    def share(holds: list[bool]) -> float:
        return 100 * sum(holds) / max(1, len(holds))

    states = [verdicts[case.name] for case in cases]
    return Shares(
        sum(verdict.state == "crashed" for verdict in states),
        share([verdict.state not in ("crashed", "refused") for verdict in states]),
        share([verdict.costed for verdict in states]),
        share([verdict.state == "matches" for verdict in states]),
        share([v.state == "matches" for v, case in zip(states, cases) if case.supported()]),
    )


def shares_by_suite(cases: list[Case], verdicts: dict[str, Verdict]) -> dict[str, Shares]:
    return {
        suite: shares([case for case in cases if case.suite == suite], verdicts)
        for suite in dict.fromkeys(case.suite for case in cases)
    }


def exceptions(verdicts: dict[str, Verdict]) -> list[str]:
    """The lines of operator-tests.txt: what does not match, or has no cost."""
    return sorted(
        verdict.line(name)
        for name, verdict in verdicts.items()
        if verdict.state != "matches" or not verdict.costed
    )


def all_cases(folder: Path) -> list[Case]:
    return [*debian_cases(), *newer_cases(folder)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression")
    parser.add_argument("--update", action="store_true", help=f"write {ALLOWED.name} anew")
    parser.add_argument("--keep", type=Path, help="leave the generated modules in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        cases = [case for case in all_cases(folder) if re.search(options.pattern, case.name)]
        verdicts = judge(cases, folder)
    if options.update:
        ALLOWED.write_text("".join(f"{line}\n" for line in exceptions(verdicts)))
    elif options.pattern:
        for index, (name, verdict) in enumerate(verdicts.items()):
            print(verdict.line(name) + (f"  [out-{index}]" if options.keep else ""))
    for suite, share in shares_by_suite(cases, verdicts).items():
        print(f"{suite}: {share}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
