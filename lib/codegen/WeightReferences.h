// weights/stage-NNNN.json: where the values of a stage lie in the files of the model, for plans
// that have no copy of them (compile --no-weights). The runtime reads them from there when it
// starts.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// The JSON of `tensors`, all of them with values in files of `folder`: type, shape, file, range of
/// bytes and SHA-256 of each. Fails with CannotRead if a file is absent or too short.
llvm::Expected<std::string> weightReferences(llvm::StringRef folder,
                                             llvm::ArrayRef<const GraphTensor *> tensors);

} // namespace heterplan
