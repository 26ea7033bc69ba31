// Every operator that the importer knows by name, with what it knows of it: docs/operators.md is
// written from this and from the table of the emitters.
#pragma once

#include <string>
#include <vector>

namespace heterplan {

struct OperatorFacts {
  std::string domain; // "" for the default one
  std::string name;
  bool costed = false;
  bool differentiable = false; // floating results carry the gradients of floating operands
  /// Another operator of the graph takes its place, so it has neither cost nor code of its own.
  bool rewritten = false;
};

/// By domain, then name.
std::vector<OperatorFacts> operatorList();

} // namespace heterplan
