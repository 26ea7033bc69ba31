"""Golden tests: the real binary, its output compared by FileCheck.

RUN lines know: heterplan (the binary), %data (inputs of these tests), %clusters (bundled clusters),
%small (bundled small models), %t (scratch), `status N COMMAND...` (exit status N, a diagnostic and
not a crash), `no-directory DIR` (DIR was not made).
"""
import os
import shutil
import subprocess

import lit.formats

config.name = "heterplan"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
source = os.environ.get("HETERPLAN_SOURCE_DIR", os.path.join(config.test_source_root, "..", ".."))
source = os.path.abspath(source)
config.test_exec_root = os.path.join(
    os.environ.get("HETERPLAN_TEST_OUTPUT", os.path.join(source, "build", "test-output")), "golden")

binary = os.environ.get("HETERPLAN_BINARY", os.path.join(source, "build", "bin", "heterplan"))
if not os.path.exists(binary):
    lit_config.fatal("there is no binary " + binary)
filecheck = shutil.which("FileCheck") or shutil.which("FileCheck-14")
if filecheck is None:
    lit_config.fatal("FileCheck is not installed")

tools = os.path.join(config.test_source_root, "bin")
path = [tools, os.path.dirname(binary), config.environment.get("PATH", os.environ["PATH"])]
config.environment["PATH"] = os.pathsep.join(path)
config.substitutions += [
    ("%source", source),
    ("%clusters", os.path.join(source, "profiles", "clusters")),
    ("%small", os.path.join(source, "test", "data", "small")),
    ("%data", os.path.join(config.test_source_root, "Inputs")),
    ("%models", os.path.join(source, "test", "data", "models")),
    (r"\bFileCheck\b", filecheck + " --dump-input=fail"),
]
if os.path.exists("/dev/full"):
    config.available_features.add("dev-full")
python = os.environ.get("HETERPLAN_PYTHON", os.path.join(source, ".venv", "bin", "python"))
if os.path.exists(python):
    config.environment["HETERPLAN_PYTHON"] = python
    found = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    if subprocess.call([python, "-c", found]) == 0:
        config.available_features.add("torch")
config.environment["HETERPLAN_SWEEPS"] = os.environ.get("HETERPLAN_SWEEPS", "")
config.environment["HETERPLAN_BINARY"] = binary
