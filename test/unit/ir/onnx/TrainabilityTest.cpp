// Tests of the check for trainability: a model that cannot be trained is refused with a remedy
// before planning; a note reports layers that are trained in an unexpected way.
#include "ir/Trainability.h"
#include "Models.h"

#include "llvm/ADT/StringExtras.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// One product with `w`, and what `rest` makes of it.
onnx::ModelProto product(const std::string &outputs, const std::string &rest) {
  auto proto = model("g (float[N, 8] x) => (" + outputs + ") { h = MatMul(x, w) " + rest + " }");
  weight(proto, "w", {8, 8});
  return proto;
}

/// A weight of 8 × 8 elements of `size` bytes, whose values lie in an absent file.
void addWeight(onnx::ModelProto &proto, const std::string &name, int type, int size) {
  auto &tensor = weight(proto, name, {8, 8});
  tensor.set_data_type(type);
  for (auto &entry : *tensor.mutable_external_data())
    if (entry.key() == "length")
      entry.set_value(std::to_string(64 * size));
}

void expectIn(llvm::StringRef part, llvm::StringRef text) {
  EXPECT_TRUE(text.contains(part)) << text.str();
}

std::string refusal(const onnx::ModelProto &proto) {
  llvm::Error error = checkTrainable(imported(proto), "m.onnx");
  return error ? toText(std::move(error)) : "";
}

TEST(Trainability, LogitsTrain) {
  auto proto = product("float[N, 8] y", "y = Relu(h)");
  EXPECT_EQ(refusal(proto), "");
  EXPECT_TRUE(trainingNotes(imported(proto)).empty());
}

TEST(Trainability, QuantisedWeightsAreRefusedByName) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] y) <float s = {0.5}> { w = "
                     "DequantizeLinear(q, s) h = MatMul(x, w) y = Add(h, b) }");
  weight(proto, "b", {8});
  addWeight(proto, "q", onnx::TensorProto::INT8, 1);
  expectIn("m.onnx: q: error: [HP1802] the model is quantised", refusal(proto));
}

TEST(Trainability, WeightsThatAreRoundedInTheGraphAreRefused) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] y) <float s = {0.5}, int8 z = {0}> { i = "
                     "QuantizeLinear(w, s, z) v = DequantizeLinear(i, s, z) y = MatMul(x, v) }");
  weight(proto, "w", {8, 8});
  expectIn("is quantised", refusal(proto));
}

TEST(Trainability, BytesThatAreFedMayBeScaled) {
  auto proto = model("g (uint8[N, 8] b) => (float[N, 8] y) <float s = {0.5}> { x = "
                     "DequantizeLinear(b, s) y = MatMul(x, w) }");
  weight(proto, "w", {8, 8});
  EXPECT_EQ(refusal(proto), "");
}

TEST(Trainability, NoParameterIsRefused) { expectIn("no parameter to train", refusal(plain())); }

TEST(Trainability, SamplesTimesSamplesAreRefused) {
  auto proto = product("float[N, M] y", "t = Transpose(x) y = MatMul(h, t)");
  expectIn("output 'y' compares samples with samples", refusal(proto));
  expectIn("return the embeddings of each sample", refusal(proto));
}

TEST(Trainability, AnOutputWithoutGradientIsRefusedUnlessThereIsAnother) {
  expectIn("output 'y' depends on no parameter by a gradient",
           refusal(product("int64[N, 1] y", "y = ArgMax<axis = 1>(h)")));
  auto both = product("int64[N, 1] y, float[N, 8] h", "y = ArgMax<axis = 1>(h)");
  EXPECT_EQ(refusal(both), "");
  expectIn("the first output, 'y'", llvm::join(trainingNotes(imported(both)), "|"));
}

TEST(Trainability, OtherTypesOfParametersAreSaid) {
  auto proto = model("g (float16[N, 8] x) => (float16[N, 8] y) { y = MatMul(x, w) }");
  addWeight(proto, "w", onnx::TensorProto::FLOAT16, 2);
  expectIn("1 of 1 parameters are of float16", llvm::join(trainingNotes(imported(proto)), "|"));
}

} // namespace
