// Reads an ONNX model into a Graph: shapes and types inferred with the batch left open, shape
// arithmetic folded away, every tensor given its role. Weights are not needed and not read: only
// their shapes are.
#pragma once

#include "ir/Graph.h"
#include "ir/onnx/read/ParameterIdentity.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>

namespace heterplan {

struct ImportOptions {
  /// Axis of the inputs that counts samples. Default: the symbolic leading axis, the only symbol,
  /// or the leading axis.
  std::optional<int> batchDim;
  /// Axis of the batch in each input, by name; -1 for an input without a batch.
  std::map<std::string, int> inputBatchDims;
  /// No axis counts samples: one run of the model, at the sizes of the file, is one sample.
  bool noBatch = false;
  /// Reports a model in which nothing counts samples with a note instead of an error.
  bool lookOnly = false;
  /// The symbolic dimension that counts samples, wherever it stands. Default: empty, found.
  std::string batchSymbol;
  /// Values of symbolic dimensions other than the batch, by name; "INPUT.AXIS" where the model
  /// gives neither name nor value.
  std::map<std::string, int64_t> dims;
  /// Which parameters are one, and which are not.
  IdentityOptions identity;
  /// Patterns of parameters that are not trained, and of those that are all the same.
  std::vector<std::string> freeze, train;
};

/// The graph of the model at `path`. Any defect of the file is one diagnostic whose location names
/// the file and the node or tensor. Operator sets up to canonicalOpset (Normalization.h) are
/// accepted; calls of model-local functions are inlined. The time is near-linear in the size of the
/// file.
llvm::Expected<Graph> importGraph(llvm::StringRef path, const ImportOptions &options = {});

} // namespace heterplan
