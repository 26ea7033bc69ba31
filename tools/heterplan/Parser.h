// The types of CLI11's parser by name, for headers. Each source that includes <CLI/CLI.hpp>
// compiles all of its validators, which takes seconds; only sources that add or read options need
// it.
#pragma once

namespace CLI {
class App;
class Option;
} // namespace CLI
