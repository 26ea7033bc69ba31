#include "../Models.h"

#include "ir/onnx/read/Skeleton.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

constexpr size_t some = 64; // bytes that count as large in these tests

onnx::ModelProto withWeight(onnx::TensorProto &&values) {
  auto proto = model("g (float[N, 8] x) => (float[N, 4] y) { y = MatMul(x, w) }");
  values.set_name("w");
  values.add_dims(8);
  values.add_dims(4);
  *proto.mutable_graph()->add_initializer() = std::move(values);
  return proto;
}

onnx::TensorProto rawFloats(float first = 0.5f) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  std::vector<float> values(32, first);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

/// The remainder of `proto`, and how it refers to its values.
struct Stripped {
  onnx::ModelProto proto;
  std::map<std::string, std::string> external;
  std::string values; // where it says that they are
};
Stripped stripped(const onnx::ModelProto &proto) {
  Stripped result;
  std::string bytes = proto.SerializeAsString();
  EXPECT_TRUE(result.proto.ParseFromString(skeletonOf(bytes, "me.onnx", some)));
  for (const auto &entry : result.proto.graph().initializer(0).external_data())
    result.external[entry.key()] = entry.value();
  if (!result.external.empty())
    result.values =
        bytes.substr(std::stoul(result.external["offset"]), std::stoul(result.external["length"]));
  return result;
}

TEST(Skeleton, LeavesWeightsInTheFile) {
  auto proto = withWeight(rawFloats());
  Stripped left = stripped(proto);
  EXPECT_EQ(left.external["location"], "me.onnx");
  EXPECT_EQ(left.values, proto.graph().initializer(0).raw_data());
  EXPECT_FALSE(left.proto.graph().initializer(0).has_raw_data());
  EXPECT_EQ(left.proto.graph().initializer(0).data_location(), onnx::TensorProto::EXTERNAL);
  left.proto.mutable_graph()->clear_initializer();
  proto.mutable_graph()->clear_initializer();
  EXPECT_EQ(left.proto.SerializeAsString(), proto.SerializeAsString());
}

TEST(Skeleton, LeavesPackedNumbersWhichAreTheSameBytes) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int i = 0; i < 32; ++i)
    tensor.add_float_data(0.25f * static_cast<float>(i));
  std::string values(reinterpret_cast<const char *>(tensor.float_data().data()), 128);
  EXPECT_EQ(stripped(withWeight(std::move(tensor))).values, values);
}

TEST(Skeleton, KeepsWhatFoldingMayWant) {
  onnx::TensorProto mask = rawFloats(-1e9f), integers;
  integers.set_data_type(onnx::TensorProto::INT64);
  integers.set_raw_data(std::string(32 * sizeof(int64_t), '\7'));
  onnx::TensorProto bytes;
  bytes.set_data_type(onnx::TensorProto::UINT8);
  bytes.set_raw_data(std::string(some * 2, '\1'));
  for (onnx::TensorProto *tensor : {&mask, &integers, &bytes}) {
    onnx::TensorProto copy = *tensor;
    EXPECT_TRUE(stripped(withWeight(std::move(copy))).external.empty());
  }
  onnx::TensorProto quantised;
  quantised.set_data_type(onnx::TensorProto::INT8);
  quantised.set_raw_data(std::string(some * 2, '\7'));
  EXPECT_FALSE(stripped(withWeight(std::move(quantised))).external.empty());
}

TEST(Skeleton, KeepsTensorsThatAreNotSoSimple) {
  onnx::TensorProto twice = rawFloats(), outside = rawFloats(), other = rawFloats();
  twice.add_float_data(1);
  outside.set_data_location(onnx::TensorProto::DEFAULT);
  other.set_data_type(onnx::TensorProto::DOUBLE);
  other.clear_raw_data();
  for (int i = 0; i < 32; ++i)
    other.add_float_data(0.5f); // in a field that is not for its type
  for (onnx::TensorProto *tensor : {&twice, &outside, &other}) {
    auto proto = withWeight(std::move(*tensor));
    std::string bytes = proto.SerializeAsString();
    EXPECT_EQ(skeletonOf(bytes, "me.onnx", some), bytes);
  }
}

TEST(Skeleton, CopiesWhatIsNoModel) {
  std::string bytes = withWeight(rawFloats()).SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    onnx::ModelProto before, after;
    std::string cut = bytes.substr(0, length);
    bool parses = before.ParseFromString(cut);
    EXPECT_EQ(after.ParseFromString(skeletonOf(cut, "me.onnx", some)), parses) << length;
  }
  std::string noise = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff not a model";
  EXPECT_EQ(skeletonOf(noise, "me.onnx", some), noise);
}

TEST(Skeleton, WeightsOfAnImportedFileLieInIt) {
  auto proto = model("g (float[N, 256] x) => (float[N, 256] y) { y = MatMul(x, w) }");
  auto &tensor = *proto.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(256);
  tensor.add_dims(256);
  std::vector<float> values(256 * 256, 0.5f);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  Folder folder;
  std::string path = folder.write("big.onnx", proto.SerializeAsString());
  auto graph = importGraph(path);
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  const GraphTensor &weight = heterplan::test::tensor(*graph, "w");
  EXPECT_EQ(weight.role, TensorRole::Parameter);
  EXPECT_FALSE(weight.data);
  ASSERT_TRUE(weight.external);
  EXPECT_EQ(weight.external->file, "big.onnx");
  EXPECT_EQ(weight.external->length, 256 * 256 * 4);
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(bytes.substr(weight.external->offset, 262144), tensor.raw_data());
  // Through a link from elsewhere: the values are in memory, since they would lie outside the
  // folder.
  Folder other;
  std::string link = other.path + "/link.onnx";
  ASSERT_FALSE(llvm::sys::fs::create_link(path, link));
  auto linked = importGraph(link);
  ASSERT_TRUE(bool(linked)) << toText(linked.takeError());
  EXPECT_TRUE(heterplan::test::tensor(*linked, "w").data);
  EXPECT_EQ(linked->fingerprint, graph->fingerprint);
}

} // namespace
