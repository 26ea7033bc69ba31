// Puts trained weights back into the ONNX file that was planned, so that what was trained can be
// shipped.
#pragma once

#include "ir/onnx/read/ParameterIdentity.h"
#include "ir/onnx/write/TensorFile.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

struct TrainedModelReport {
  size_t tensors = 0;             // that have trained values
  std::string dataFile;           // beside the output; empty where all values are in it
  std::vector<std::string> notes; // what else differs from the model
};

/// Writes to `output` the model at `path` with the values of `weights` under the same names, or
/// those of the module; `identity`: what the import was told. Values are written in
/// place of initializers, of inputs that are weights (which get a value), and of vectors that the
/// file shares through Identity nodes or has as Constant nodes (which become initializers). Batch
/// normalisation and dropout are left in inference mode. Values lie in `output`.data where the
/// model has any outside of its file, or where they are more than a file can hold. NotSupported
/// where a tensor of `weights` is none of these, WrongType where type or shape differ from those of
/// an initializer, CannotWrite where `output`.data has values of the model itself; nothing is
/// written then.
llvm::Expected<TrainedModelReport> writeTrainedModel(llvm::StringRef path,
                                                     const TensorFile &weights,
                                                     llvm::StringRef output,
                                                     const IdentityOptions &identity = {});

} // namespace heterplan
