#!/usr/bin/env python3
"""Checks every #include of lib/ and tools/ against the layers of the architecture.

    check_includes.py ROOT         check the sources below ROOT; exit 1 and list what is wrong
    check_includes.py --self-test  prove on made-up trees that each rule can fail

A layer may include itself and those named in LAYERS; each third party belongs to the layers named
in THIRD_PARTIES. The longest matching folder decides which layer a file is in.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from source_checks import main, tree  # noqa: E402

IR, COST = ["support", "ir"], ["support", "ir", "cost"]
# Folder below lib/ (or `tools`) -> layers that it may include besides itself.
LAYERS = {
    "support": [],
    "ir": ["support"],
    "ir/onnx": IR,
    "cost": IR,
    "cost/kernels": COST,
    "cost/kernels/cpu": COST + ["cost/kernels"],
    "cost/kernels/cuda": COST + ["cost/kernels"],
    "search/linear": ["support"],
    "search/balance": COST,
    "search": COST + ["search/linear", "search/balance"],
    "search/verify": COST,
    "search/jobs": COST + ["search/linear"],
    "codegen": IR,
}
LAYERS["tools"] = list(LAYERS)

# Start of an include in <> or "" -> layers that may have it.
THIRD_PARTIES = {
    "llvm/": list(LAYERS),
    "onnx/": ["ir/onnx"],
    "google/protobuf/": ["ir", "ir/onnx"],
    "heterplan.pb.h": ["ir"],
    "z3": ["search/verify"],
    "oneapi/": ["cost/kernels/cpu"],
    "dnnl": ["cost/kernels/cpu"],
    "cuda": ["cost/kernels/cuda"],
    "cudnn": ["cost/kernels/cuda"],
    "cublas": ["cost/kernels/cuda"],
    "Clp": ["search/linear"],
    "Osi": ["search/linear"],
    "Cbc": ["search/linear"],
    "Coin": ["search/linear", "search"],
    "coin/": ["search/linear"],
    "Eigen/": ["cost", "search"],
    "CLI/": ["tools"],
}
FORBIDDEN = {
    "llvm/Support/JSON.h": "clang 14 cannot compile it as C++20; JSON goes through ir/FileForms.h",
    "ranges": "clang 14 cannot compile it",
    "format": "g++ 12 does not have it",
}
# The generated schema stays behind the file forms: no header may show it.
SOURCE_FILES_ONLY = ("heterplan.pb.h", "google/protobuf/", "onnx/", "z3")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(path):
    """The longest layer that is a leading folder of `path`, or None."""
    parts = path.split("/")
    for length in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:length])
        if folder in LAYERS:
            return folder
    return None


def third_party_of(include):
    return next((start for start in THIRD_PARTIES if include.startswith(start)), None)


def complaint(root, layer, is_header, include):
    """The reason why a file of `layer` may not have `include`, or None."""
    if include in FORBIDDEN:
        return FORBIDDEN[include]
    generated = include.removeprefix("ir/") == "heterplan.pb.h"
    target = None if generated else layer_of(include)
    own = (root / "lib" / include).exists() or (root / include).exists()
    if target and (own or include.split("/")[0] in ("support", "ir", "cost", "search", "codegen")):
        if target != layer and target not in LAYERS[layer]:
            allowed = ", ".join(LAYERS[layer]) or "nothing else of the project"
            return f"'{layer}' must not see '{target}'; it may see {allowed}"
        return None
    party = third_party_of(include.removeprefix("ir/"))
    if party is None:
        return None if "/" not in include or include.startswith("sys/") else "unknown library"
    if layer not in THIRD_PARTIES[party]:
        return f"'{party}' belongs to {', '.join(THIRD_PARTIES[party])} only"
    if is_header and party in SOURCE_FILES_ONLY and layer != "tools":
        return f"'{party}' may be included by .cpp files only"
    return None


def sources(root):
    """(path below root, layer) of every C++ file of lib/ and tools/."""
    for top in ("lib", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".def", ".cu", ".inc"):
                name = path.relative_to(root).as_posix()
                yield path, name, layer_of(name.removeprefix("lib/"))


def check(root):
    """All complaints below `root`, as printable lines."""
    problems, seen = [], 0
    for path, name, layer in sources(root):
        seen += 1
        if layer is None:
            problems.append(f"{name}:1: error: this folder is in no layer; add it to LAYERS")
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            # A file beside the including one needs no folder in its name.
            include = match[2]
            if match[1] == '"' and "/" not in include and (path.parent / include).exists():
                continue
            wrong = complaint(root, layer, path.suffix == ".h", include)
            if wrong:
                problems.append(f"{name}:{number}: error: #include of {include}: {wrong}")
    if not seen:
        problems.append(f"{root}: error: no sources found below lib/ and tools/")
    return problems


# file, its one include, part of the expected complaint (None: it is fine)
CASES = [
    ("lib/support/A.cpp", '"llvm/ADT/StringRef.h"', None),
    ("lib/support/A.cpp", '"ir/Plan.h"', "must not see 'ir'"),
    ("lib/ir/A.cpp", '"cost/CostModel.h"', "must not see 'cost'"),
    ("lib/ir/A.cpp", '"ir/onnx/Importer.h"', "must not see 'ir/onnx'"),
    ("lib/ir/A.cpp", '"heterplan.pb.h"', None),
    ("lib/ir/A.h", '"heterplan.pb.h"', ".cpp files only"),
    ("lib/ir/A.cpp", "<onnx/onnx_pb.h>", "belongs to ir/onnx"),
    ("lib/ir/onnx/A.cpp", "<onnx/onnx_pb.h>", None),
    ("lib/cost/A.cpp", '"search/Problem.h"', "must not see 'search'"),
    ("lib/cost/A.cpp", '"ir/heterplan.pb.h"', "belongs to ir"),
    ("lib/search/A.cpp", '"search/verify/Verifier.h"', "must not see 'search/verify'"),
    ("lib/search/A.cpp", "<z3++.h>", "belongs to search/verify"),
    ("lib/search/verify/A.cpp", "<z3++.h>", None),
    ("lib/search/verify/A.cpp", '"search/Problem.h"', "must not see 'search'"),
    ("lib/codegen/A.cpp", '"cost/CostModel.h"', "must not see 'cost'"),
    ("lib/codegen/A.cpp", '"ir/Program.h"', None),
    ("lib/codegen/A.cpp", '"tools/heterplan/Commands.h"', "must not see 'tools'"),
    ("lib/codegen/A.cpp", "<CLI/CLI.hpp>", "belongs to tools"),
    ("tools/heterplan/A.cpp", "<CLI/CLI.hpp>", None),
    ("tools/heterplan/A.cpp", '"search/verify/Verifier.h"', None),
    ("lib/ir/A.cpp", "<ranges>", "clang 14"),
    ("lib/ir/A.cpp", "<vector>", None),
    ("lib/ir/A.cpp", "<boost/any.hpp>", "unknown library"),
    ("lib/extra/A.cpp", "<vector>", "in no layer"),
]


def self_test():
    failures = []
    for name, include, expected in CASES:
        # The files that the cases name exist, as they do in the project.
        with tree({name: f"#include {include}\n", "tools/heterplan/Commands.h": ""}) as root:
            problems = check(root)
        fine = not problems if expected is None else any(expected in p for p in problems)
        if not fine:
            failures.append(f"{name} with {include}: expected {expected}, got {problems}")
    with tree({}) as root:
        if not check(root):
            failures.append("an empty tree must not pass")
    return failures


if __name__ == "__main__":
    main(__doc__, check, self_test, "layering: clean")
