// Which initializers of a file are which parameters of the user's module. Exporters merge
// parameters that start equal and copy the transpose of a weight that is used twice; what trains
// must be the module's parameters. The same pass runs before a model is planned and before trained
// weights are written back, so that both speak of the same tensors.
#pragma once

#include "ir/onnx/read/StatedParameters.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace heterplan {

/// The user's statements about parameters of a file that has none itself.
struct IdentityOptions {
  /// Groups of initializers that are one parameter; names.
  std::vector<std::vector<std::string>> tie;
  /// Patterns (`*` stands for any text) of parameters that are trained apart though they are equal.
  std::vector<std::string> untie;
  bool operator==(const IdentityOptions &) const = default;
};

struct ParameterIdentities {
  /// From the metadata of the file, by the name of the initializer; nothing: it states none.
  std::optional<StatedParameters> stated;
  /// The name in the module of an initializer that has another one in the file.
  std::map<std::string, std::string> modules;
  /// The names of the parameters that the exporter lists; none if it lists none.
  std::set<std::string> listed;
};

/// Makes each parameter of the module one initializer of `model`: takes merged ones apart, and
/// makes copies and transposed copies of one tensor uses of it. The metadata of the file count,
/// else it is inferred from values, scopes and names, and `notes` gets a line for each kind of
/// guess. MalformedModel, located in the file `path`, where the metadata contradict the file; Usage
/// where an option names no tensor.
llvm::Expected<ParameterIdentities> identifyParameters(onnx::ModelProto &model,
                                                       llvm::StringRef path,
                                                       const IdentityOptions &options,
                                                       std::vector<std::string> &notes);

/// Whether `text` is `pattern`, in which `*` stands for any text.
bool matchesPattern(llvm::StringRef text, llvm::StringRef pattern);

} // namespace heterplan
