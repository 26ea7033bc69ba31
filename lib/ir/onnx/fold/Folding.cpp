#include "ir/onnx/fold/Folding.h"

#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace heterplan {

using namespace folding;

namespace {
/// Operators of other domains may have the names of ONNX's.
const Folder *findFolder(const GraphNode &node) {
  if (!node.domain.empty())
    return nullptr;
  for (const StringMap<Folder> *table :
       {&movementFolders(), &arithmeticFolders(), &reductionFolders()})
    if (auto found = table->find(node.op); found != table->end())
      return &found->second;
  return nullptr;
}
} // namespace

bool canFold(const GraphNode &node) { return findFolder(node) != nullptr; }

bool foldReads(StringRef op, size_t input) {
  static const StringSet<> none = {"Shape", "Size", "EyeLike"};
  return !none.count(op) && (op != "CastLike" || input == 0);
}

std::optional<TensorData> fold(const GraphNode &node, ArrayRef<KnownInput> inputs,
                               const TensorType &type, size_t output) {
  const Folder *folder = findFolder(node);
  int64_t size = sizeOf(type.type);
  if (!folder || !type.known || !size)
    return std::nullopt;
  Operation op{node, inputs, output, {type.type, type.dims, ""}};
  int64_t bytes = countOf(type.dims) * size;
  if (bytes > largestFolded)
    return std::nullopt;
  op.result.bytes.assign(static_cast<size_t>(bytes), '\0');
  if (!(*folder)(op))
    return std::nullopt;
  return std::move(op.result);
}

} // namespace heterplan
