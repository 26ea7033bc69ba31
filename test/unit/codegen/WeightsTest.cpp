#include "codegen/Weights.h"

#include "GraphBuilder.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
class Weights : public testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("weights", folder)); }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }
  std::string file(const char *name) { return (folder + "/" + name).str(); }

  llvm::SmallString<128> folder;
};

GraphBuilder twoParameters() {
  GraphBuilder b;
  TensorId a = b.parameter("a\"b", {2}), c = b.parameter("c", {3, 1});
  b.graph.tensors[a].data = values<float>(DataType::Float32, {2}, {1.f, 2.f});
  b.graph.tensors[c].external = ExternalData{"weights.bin", 4, 12};
  return b;
}
} // namespace

TEST_F(Weights, LayoutIsLengthHeaderData) {
  GraphBuilder b = twoParameters();
  b.graph.folder = folder.str().str();
  ASSERT_FALSE(bool(writeFile(file("weights.bin"), "skipABCDEFGHIJKLtail")));
  ASSERT_FALSE(bool(writeWeights(file("out"), b.graph, {0, 1})));
  std::string text = llvm::cantFail(readFile(file("out")));
  uint64_t length = llvm::support::endian::read64le(text.data());
  EXPECT_EQ(length % 8, 0u);
  std::string header = text.substr(8, length);
  EXPECT_NE(header.find("\"a\\\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"),
            std::string::npos)
      << header;
  EXPECT_NE(header.find("\"c\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[8,20]}"),
            std::string::npos)
      << header;
  EXPECT_EQ(text.substr(8 + length + 8), "ABCDEFGHIJKL");
}

TEST_F(Weights, AbsentOrShortFileIsAnError) {
  GraphBuilder b = twoParameters();
  b.graph.folder = folder.str().str();
  std::string text = toText(writeWeights(file("out"), b.graph, {1}));
  EXPECT_NE(text.find("[HP1001]"), std::string::npos) << text;
  ASSERT_FALSE(bool(writeFile(file("weights.bin"), "short")));
  text = toText(writeWeights(file("out"), b.graph, {1}));
  EXPECT_NE(text.find("it is too short"), std::string::npos) << text;
}

TEST_F(Weights, PlaceThatCannotBeWrittenIsAnError) {
  std::string text = toText(writeWeights(file("no/where"), twoParameters().graph, {0}));
  EXPECT_NE(text.find("[HP1002]"), std::string::npos) << text;
}

TEST_F(Weights, OnlyTensorsWithAllTheirValuesAreStored) {
  GraphBuilder b = twoParameters();
  TensorId none = b.parameter("none", {4}), wrong = b.parameter("wrong", {4});
  b.graph.tensors[wrong].external = ExternalData{"weights.bin", 0, 3};
  StageModule stage;
  stage.parameters = {0, 1, none, wrong};
  EXPECT_EQ(storedTensors(b.graph, stage), (std::vector<TensorId>{0, 1}));
}
