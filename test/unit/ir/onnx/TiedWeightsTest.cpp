// One parameter that several layers use, in whatever disguise: counted once, and known as one.
#include "Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// An embedding and a head that share `w`; `tie` makes v of it.
LayerGraph tied(const std::string &tie, std::vector<int64_t> middle = {8, 8}) {
  auto proto =
      model("g (int64[N, 4] x) => (float[N, 4, 20] z) { e = Gather(w, x) h = MatMul(e, m) " + tie +
            " z = MatMul(h, v) }");
  weight(proto, "w", {20, 8});
  weight(proto, "m", std::move(middle));
  return grouped(imported(proto));
}

void expectOneParameter(const LayerGraph &layers) {
  ASSERT_EQ(layers.size(), 3);
  EXPECT_EQ(totalParameterBytes(layers), Bytes(4 * (20 * 8 + 8 * 8)));
  EXPECT_EQ(layers.layers[0].parameters, std::vector<std::string>{"w"});
  EXPECT_EQ(layers.layers[2].parameters, std::vector<std::string>{"w"});
  std::vector<TiedParameter> tied = layers.tiedParameters();
  ASSERT_EQ(tied.size(), 1u);
  EXPECT_EQ(tied[0].layers, (std::vector<int>{0, 2}));
}

TEST(TiedWeights, ThroughTranspose) { expectOneParameter(tied("v = Transpose<perm = [1, 0]>(w)")); }

TEST(TiedWeights, ThroughIdentityAndCast) {
  expectOneParameter(
      tied("i = Identity(w) c = Cast<to = 1>(i) t = Identity(c) v = Transpose<perm = [1, 0]>(t)"));
}

TEST(TiedWeights, ThroughAFunction) {
  auto proto = model("g (int64[N, 4] x) => (float[N, 4, 20] z) { e = Gather(w, x) h = MatMul(e, m) "
                     "z = f.head(h, w) }");
  auto *import = proto.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  weight(proto, "w", {20, 8});
  weight(proto, "m", {8, 8});
  onnx::OnnxParser parser("<domain: \"f\", opset_import: [ \"\" : 13 ]> head (a, w) => (b) { t = "
                          "Transpose<perm = [1, 0]>(w) b = MatMul(a, t) }");
  ASSERT_TRUE(parser.Parse(*proto.add_functions()).IsOK());
  expectOneParameter(grouped(imported(proto)));
}

} // namespace
