// Which initializers are one parameter, or several, where the file does not state it: by values,
// scopes and names, as exporters leave them.
#pragma once

#include "ir/onnx/read/ParameterIdentity.h"

#include <set>
#include <string>
#include <vector>

namespace heterplan {

class Initializers;

/// Parameters of the module, and those that the nodes of the file read, as far as the exporter says
/// so.
struct ExporterFacts {
  std::set<std::string> listed;
  std::vector<std::string> read;
};

/// Takes merged parameters apart and makes copies of one tensor uses of it. `notes` gets a line for
/// each kind of guess.
void inferIdentities(Initializers &initializers, const IdentityOptions &options,
                     const ExporterFacts &facts, std::vector<std::string> &notes);

} // namespace heterplan
