"""`cmake --install` gives C++ programs what find_package(heterplan) promises."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, SOURCE

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(reader LANGUAGES C CXX)
find_package(heterplan 0.2 CONFIG REQUIRED)
add_executable(reader reader.cpp)
target_link_libraries(reader PRIVATE heterplan::heterplan_onnx)
"""
READER = """
#include "ir/onnx/Importer.h"
#include "support/Diagnostic.h"
#include "llvm/Support/raw_ostream.h"

int main(int, char **argv) {
  llvm::Expected<heterplan::Graph> graph = heterplan::importGraph(argv[1], {});
  if (!graph) {
    llvm::errs() << heterplan::toText(graph.takeError());
    return 1;
  }
  llvm::outs() << graph->nodes.size() << " operators";
}
"""


def test_a_program_of_another_project_reads_a_model(tmp_path: Path) -> None:
    if not list(BUILD.glob("lib/codegen/*.a")):
        pytest.skip(f"the libraries are not in {BUILD}")
    prefix, project = tmp_path / "prefix", tmp_path / "project"
    install = ["cmake", "--install", BUILD, "--prefix", prefix]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    assert (prefix / "bin/heterplan").is_file()
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    (project / "reader.cpp").write_text(READER)
    configure = ["cmake", "-S", project, "-B", project / "build", "-G", "Ninja"]
    for command in (
        [*configure, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", project / "build"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    model = SOURCE / "test/data/small/cnn.onnx"
    told = subprocess.run([project / "build/reader", model], capture_output=True, text=True, check=True)
    assert told.stdout.endswith(" operators") and int(told.stdout.split()[0]) > 3
