// Turns the tensors of an ONNX file into ours, trusting nothing: dimensions, lengths and paths are
// checked before they are used.
#pragma once

#include "ir/Graph.h"
#include "support/Diagnostic.h"

#include "llvm/Support/Error.h"

#include <optional>

namespace onnx {
class SparseTensorProto;
class TensorProto;
} // namespace onnx

namespace heterplan {

/// Largest number of elements of any tensor; its bytes are exact in an int64 and a double.
constexpr int64_t maxElements = int64_t(1) << 45;

constexpr size_t maxRank = 64;

/// Product of `dims`; AbsurdSize where there are more than maxRank, one is negative or the product
/// exceeds maxElements.
llvm::Expected<int64_t> checkedCount(llvm::ArrayRef<int64_t> dims, const Location &place);

/// The values that lie in the file itself, little-endian. MalformedModel where their length differs
/// from what the dimensions need, of strings only type and shape are kept.
llvm::Expected<TensorData> inlineData(const onnx::TensorProto &tensor, const Location &place);

/// The values of a sparse tensor, written out. MalformedModel where indices and values do not fit,
/// UnsupportedOperator where that would take more than 16 MiB.
llvm::Expected<TensorData> sparseData(const onnx::SparseTensorProto &sparse, const Location &place);

bool isExternal(const onnx::TensorProto &tensor);

/// The location of the values of an external tensor; empty if the file is absent or too short.
/// Fails with ExternalDataPath if the path leaves `folder`.
llvm::Expected<std::optional<ExternalData>>
externalData(const onnx::TensorProto &tensor, llvm::StringRef folder, const Location &place);

/// Element type; MalformedModel where the number is none.
llvm::Expected<DataType> elementType(int number, const Location &place);

} // namespace heterplan
