#include "../Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// The operators that are left, with the inputs of each.
std::string left(const std::string &nodes, const std::string &inputs = "float[N, 2, 3] x",
                 const std::string &output = "y") {
  Graph graph = imported(model("g (" + inputs + ") => (float[] " + output + ") {" + nodes + "}"));
  std::string result;
  for (const GraphNode &node : graph.nodes) {
    result += (result.empty() ? "" : " ") + node.op + "(";
    for (TensorId id : node.inputs)
      result += id == noTensor || graph.tensors[id].role == TensorRole::Constant
                    ? ""
                    : graph.tensors[id].name;
    result += ")";
  }
  return result;
}

TEST(Identities, NodesThatChangeNothingDisappear) {
  EXPECT_EQ(left("a = Identity(x) b = Cast <to = 1> (a) c = Concat <axis = 0> (b)"
                 " s = Constant <value = int64[3] {-1, 2, 3}> () d = Reshape(c, s)"
                 " e = Transpose <perm = [0, 1, 2]> (d) y = Relu(e)"),
            "Relu(x)");
  EXPECT_EQ(left("one = Constant <value = float[1] {1}> () a = Mul(one, x)"
                 " zero = Constant <value = float {0}> () b = Sub(a, zero) y = Relu(b)"),
            "Relu(x)");
}

TEST(Identities, NodesThatChangeSomethingStay) {
  EXPECT_EQ(left("zero = Constant <value = float {0}> () a = Sub(zero, x) y = Relu(a)"),
            "Sub(x) Relu(a)");
  EXPECT_EQ(left("s = Constant <value = int64[1] {2}> () e = Constant <value = int64[1] {-9}> ()"
                 " a = Constant <value = int64[1] {2}> () t = Constant <value = int64[1] {-1}> ()"
                 " b = Slice(x, s, e, a, t) y = Relu(b)"), // reversed, of the same shape
            "Slice(x) Relu(b)");
  EXPECT_EQ(left("y = Identity(x)"), "Identity(x)"); // an output keeps its name
}

TEST(Identities, ANeutralConstantMayBroadcast) {
  EXPECT_EQ(left("one = Constant <value = float[2, 1] {1, 1}> () a = Mul(x, one) y = Relu(a)",
                 "float[N, 1, 3] x"),
            "Expand(x) Relu(a)");
}

TEST(Identities, ReshapesAndTransposesAreJoined) {
  EXPECT_EQ(
      left("one = Constant <value = int64[1] {1}> () three = Constant <value = int64[1] {3}> ()"
           " a = Unsqueeze(x, one) b = Unsqueeze(a, three) y = Relu(b)"),
      "Reshape(x) Relu(b)");
  EXPECT_EQ(left("a = Transpose <perm = [0, 2, 1]> (x) b = Transpose <perm = [0, 2, 1]> (a)"
                 " y = Relu(b)"),
            "Relu(x)");
  // The dynamo exporter transposes the keys so.
  std::string nodes = "s = Constant <value = int64[3] {-1, 2, 3}> ()"
                      " t = Constant <value = int64[4] {-1, 4, 3, 2}> ()"
                      " a = Reshape(x, s) b = Transpose <perm = [0, 2, 1]> (a) c = Reshape(b, t)"
                      " y = Relu(c)";
  EXPECT_EQ(left(nodes, "float[N, 4, 2, 3] x"), "Transpose(x) Relu(c)");
}

/// An attention mask that torch.vmap indexes by sample and position.
const char *const indices = " zero = Constant <value = int64 {0}> ()"
                            " one = Constant <value = int64 {1}> ()"
                            " s = Shape(x) n = Gather(s, zero) r = Range(zero, n, one)"
                            " last = Constant <value = int64[1] {1}> () c = Unsqueeze(r, last)";

TEST(Identities, ASelectionOfEverythingInOrderIsAReshape) {
  std::string flat = std::string(indices) +
                     " k = Constant <value = int64[2] {0, 1}> ()"
                     " two = Constant <value = int64 {2}> () m = Mul(c, two) i = Add(m, k)"
                     " f = Constant <value = int64[2] {-1, 3}> () v = Reshape(x, f)"
                     " g = Gather(v, i) y = Relu(g)";
  EXPECT_EQ(left(flat), "Relu(x)");
  std::string named = std::string(indices) + " g = GatherND(x, c) y = Relu(g)";
  EXPECT_EQ(left(named), "Relu(x)");
  std::string backwards =
      std::string(indices) + " top = Sub(n, one) i = Sub(top, c) g = GatherND(x, i) y = Relu(g)";
  EXPECT_NE(left(backwards).find("GatherND("), std::string::npos);
}

/// Attention over three positions as the dynamo exporter writes it: a mask by sample, whose values
/// are `allowed`, and a guard against rows without keys.
std::string attention(const std::string &allowed) {
  return std::string(" zero = Constant <value = int64 {0}> () z = Constant <value = float {0}> ()"
                     " low = Constant <value = float {-1000}> () h = Shape(x)"
                     " i = Constant <value = int64[1] {0}> () n = Gather(h, i)"
                     " r = Constant <value = int64[2] {3, 3}> () s = Concat <axis = 0> (n, r)"
                     " one = Constant <value = float[1, 3, 3] {") +
         allowed +
         "}> () m = Cast <to = 9> (one) e = Expand(m, s) mask = Where(e, z, low)"
         " t = Transpose <perm = [0, 2, 1]> (x) c = MatMul(x, t) b = Add(c, mask)"
         " w = Softmax <axis = 2> (b) nan = IsNaN(w) g = Where(nan, z, w) y = MatMul(g, x)";
}

TEST(Identities, AMaskThatHidesNothingDisappears) {
  EXPECT_EQ(left(attention("1, 1, 1, 1, 1, 1, 1, 1, 1"), "float[N, 3, 2] x"), "Attention(xxx)");
}

TEST(Identities, AMaskThatHidesAKeyStays) {
  const std::string hiding = left(attention("1, 0, 1, 1, 1, 0, 1, 1, 1"), "float[N, 3, 2] x");
  EXPECT_NE(hiding.find("Attention(xxxmask)"), std::string::npos) << hiding;
}

TEST(Identities, ADropoutOfNothingDisappears) {
  const std::string training =
      " t = Constant <value = bool {1}> () d = Dropout(x, r, t) y = Relu(d)";
  EXPECT_EQ(left("r = Constant <value = float {0}> ()" + training), "Relu(x)");
  EXPECT_EQ(left("r = Constant <value = float {0.1}> ()" + training), "Dropout(x) Relu(d)");
}

TEST(Identities, AGuardOfOtherValuesStays) {
  EXPECT_EQ(left("z = Constant <value = float {0}> () w = Softmax <axis = 2> (x) nan = IsNaN(w)"
                 " g = Where(nan, z, w) y = Relu(g)"),
            "Softmax(x) IsNaN(w) Where(nanw) Relu(g)");
}

} // namespace
