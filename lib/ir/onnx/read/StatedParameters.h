// The metadata that heterplan.export writes about the tensors of a model: their names in the user's
// module, whether they are trained, and which are one tensor there.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace heterplan {

/// One entry of the metadata `heterplan.parameters`.
struct StatedParameter {
  std::string module;  // name in the user's module
  bool buffer = false; // otherwise a parameter
  bool trained = false;
  std::string tied; // name of the group of tensors that are one in the module; "": none
  llvm::SmallVector<int64_t, 4> shape;
  std::string hash; // hex SHA-256 of the values, little-endian; "": not stated
  /// The row to which lookups give no gradient (`padding_idx` of an embedding).
  std::optional<int64_t> padding;
  bool operator==(const StatedParameter &) const = default;
};

/// By the name of the initializer.
using StatedParameters = std::map<std::string, StatedParameter>;

/// The statements in the metadata of `model`; nothing if the file has no such metadata. Fails with
/// MalformedModel, located in the file `path`, where they cannot be read, and with NewerVersion
/// where a newer heterplan wrote them.
llvm::Expected<std::optional<StatedParameters>> statedParameters(const onnx::ModelProto &model,
                                                                 llvm::StringRef path);

/// Writes `stated` into the metadata of `model`.
void setStatedParameters(onnx::ModelProto &model, const StatedParameters &stated);

} // namespace heterplan
