// Attention and what surrounds it.
#include "ir/onnx/InferenceSupport.h"

using namespace llvm;

namespace heterplan::inference {

namespace {

/// An operand as [batch, heads, length, size].
struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
};

Expected<Heads> headsOf(const Inference &node, size_t index, const char *attribute) {
  Dims dims = node.dims(index);
  if (dims.size() == 4)
    return Heads{dims[0], dims[1], dims[2], dims[3]};
  int64_t heads = node.integer(attribute, 0);
  if (dims.size() != 3)
    return node.fail("operands must have rank 3 or 4");
  if (heads < 1 || dims[2] % heads)
    return node.fail(std::string("attribute '") + attribute + "' does not divide " +
                     std::to_string(dims[2]));
  return Heads{dims[0], heads, dims[1], dims[2] / heads};
}

} // namespace

/// Q, K, V of rank 4 [batch, heads, length, size] or 3 [batch, length, heads·size]; the result has
/// the rank of Q. Outputs 1 and 2: keys and values with the past before them; 3: the scores.
Error attention(Inference &node) {
  auto q = headsOf(node, 0, "q_num_heads");
  if (!q)
    return q.takeError();
  auto k = headsOf(node, 1, "kv_num_heads");
  if (!k)
    return k.takeError();
  auto v = headsOf(node, 2, "kv_num_heads");
  if (!v)
    return v.takeError();
  if (q->size != k->size || k->length != v->length || k->heads != v->heads || k->heads < 1 ||
      q->heads % k->heads || q->batch != k->batch || k->batch != v->batch)
    return node.fail("the shapes of query, key and value do not fit");
  int64_t total = node.has(4) && node.rank(4) == 4 ? plus(k->length, node.dims(4)[2]) : k->length;
  if (node.has(3))
    if (auto scores = broadcast(node, node.dims(3), {q->batch, q->heads, q->length, total});
        !scores)
      return scores.takeError();
  Dims result{q->batch, q->heads, q->length, v->size};
  if (node.rank(0) == 3)
    result = {q->batch, q->length, times(q->heads, v->size)};
  node.set(0, node.type(0), result);
  node.set(1, node.type(1), {k->batch, k->heads, total, k->size});
  node.set(2, node.type(2), {v->batch, v->heads, total, v->size});
  node.set(3, node.type(0), {q->batch, q->heads, q->length, total});
  return Error::success();
}

} // namespace heterplan::inference
