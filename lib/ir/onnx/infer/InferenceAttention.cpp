// Attention and what surrounds it.
#include "ir/onnx/infer/InferenceSupport.h"

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
  Dims mask = node.dims(3); // since set 24 it may be shorter than the keys: padding follows
  if (!mask.empty() && mask.back() > 1 && mask.back() < total)
    mask.back() = total;
  if (auto scores = broadcast(node, mask, {q->batch, q->heads, q->length, total}); !scores)
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

/// Products of com.microsoft: transA and transB swap the last two axes.
Error fusedProduct(Inference &node) {
  Dims a = node.dims(0), b = node.dims(1);
  if (node.integer("transBatchA", 0) || node.integer("transBatchB", 0))
    return node.fail("operands whose batch axes are transposed are not supported");
  if (node.integer("transA", 0) && a.size() > 1)
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (node.integer("transB", 0) && b.size() > 1)
    std::swap(b[b.size() - 1], b[b.size() - 2]);
  auto dims = matrixProduct(node, a, b);
  if (!dims)
    return dims.takeError();
  node.set(0, node.type(0), *dims);
  return Error::success();
}

/// The weight is packed; the attributes K and N are its sizes.
Error packedProduct(Inference &node) {
  Dims dims = node.dims(0);
  if (dims.empty() || dims.back() != node.integer("K", 0) || node.integer("N", 0) < 1)
    return node.fail("attributes K and N do not fit the input");
  dims.back() = node.integer("N", 0);
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// Input [batch, length, in], weight [in, sum of the sizes of query, key and value]; `present` is
/// [2, batch, heads, total length, size].
Error projectedAttention(Inference &node) {
  Dims input = node.dims(0), weight = node.dims(1);
  int64_t heads = node.integer("num_heads", 0);
  std::vector<int64_t> sizes = node.integers("qkv_hidden_sizes");
  if (input.size() != 3 || weight.size() != 2 || heads < 1 || input[2] != weight[0])
    return node.fail("input and weights do not fit");
  if (sizes.empty())
    sizes.assign(3, weight[1] / 3);
  if (sizes.size() != 3 || plus(plus(sizes[0], sizes[1]), sizes[2]) != weight[1])
    return node.fail("the weights do not hold query, key and value");
  node.set(0, node.type(0), {input[0], input[1], sizes[2]});
  int64_t past = node.rank(4) == 5 ? node.dims(4)[3] : 0;
  node.set(1, node.type(0), {2, input[0], heads, plus(past, input[1]), sizes[1] / heads});
  return Error::success();
}

namespace {
/// Length of the keys with the past before them, which is in input `past` [batch, heads, length,
/// size].
int64_t withPast(const Inference &node, size_t past, int64_t length) {
  return node.rank(past) == 4 ? plus(node.dims(past)[2], length) : length;
}
} // namespace

/// Query [batch, length, heads·size], or all three packed as [batch, length, heads, 3, size]; key
/// and value [batch, length, heads·size], or [batch, heads, length, size]; key and value packed as
/// [batch, length, heads, 2, size].
Error multiHeadAttention(Inference &node) {
  Dims query = node.dims(0), key = node.dims(1), value = node.dims(2);
  int64_t heads = node.integer("num_heads", 0);
  if (heads < 1 || (query.size() != 3 && query.size() != 5))
    return node.fail("the query must have rank 3 or 5, and num_heads be positive");
  int64_t hidden = query.size() == 5 ? times(query[2], query[4]) : query[2];
  int64_t length = query[1], hiddenOfValue = hidden;
  if (key.size() == 3 || key.size() == 5)
    length = key[1];
  if (key.size() == 4)
    length = key[2];
  if (value.size() == 3)
    hiddenOfValue = value[2];
  if (value.size() == 4)
    hiddenOfValue = times(value[1], value[3]);
  node.set(0, node.type(0), {query[0], query[1], hiddenOfValue});
  int64_t total = withPast(node, 6, length);
  node.set(1, node.type(0), {query[0], heads, total, hidden / heads});
  node.set(2, node.type(0), {query[0], heads, total, hiddenOfValue / heads});
  node.set(3, node.type(0), {query[0], heads, query[1], total});
  return Error::success();
}

/// Query [batch, length, heads·size]; with key and value left out it holds the heads of all three.
/// The results `present` have the length of the past where buffers are shared, which only the
/// runtime knows; they count as the past with the new keys behind.
Error groupQueryAttention(Inference &node) {
  Dims query = node.dims(0);
  int64_t heads = node.integer("num_heads", 0), groups = node.integer("kv_num_heads", 0);
  if (query.size() != 3 || heads < 1 || groups < 1 || heads % groups)
    return node.fail("the query must have rank 3, and kv_num_heads divide num_heads");
  int64_t all = node.has(1) ? heads : plus(heads, times(2, groups));
  if (query[2] % all)
    return node.fail("the heads do not divide " + std::to_string(query[2]));
  int64_t size = query[2] / all, total = withPast(node, 3, query[1]);
  node.set(0, node.type(0), {query[0], query[1], times(heads, size)});
  for (size_t output : {1, 2})
    node.set(output, node.type(0), {query[0], groups, total, size});
  node.set(3, node.type(0), {query[0], heads, query[1], total});
  return Error::success();
}

} // namespace heterplan::inference
