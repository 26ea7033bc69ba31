// Tests of conclusions from constants about the samples of an export's example.
#include "../Models.h"

#include "ir/onnx/batch/SampleRows.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

std::string words(const std::vector<int64_t> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t)};
}

TEST(SampleRows, EqualAlongAnAxis) {
  std::string bytes = words({1, 2, 1, 2, 3, 4, 3, 4}); // [2, 2, 2]
  EXPECT_TRUE(hasEqualRows(bytes, {2, 2, 2}, 1, 8));
  EXPECT_FALSE(hasEqualRows(bytes, {2, 2, 2}, 0, 8));
  EXPECT_FALSE(hasEqualRows(bytes, {2, 2, 2}, 2, 8));
  EXPECT_FALSE(hasEqualRows("", {2, 2, 2}, 1, 8));
  EXPECT_FALSE(hasEqualRows(bytes, {2, 2, 3}, 1, 8));
  EXPECT_FALSE(hasEqualRows(bytes, {2, 2, 2}, 1, 0));
}

TEST(SampleRows, IndicesOfSamples) {
  EXPECT_TRUE(numbersSamples(words({0, 1, 2}), {3}, 1, 1));
  EXPECT_TRUE(numbersSamples(words({0, 3, 4, 7}), {2, 2}, 1, 4));
  EXPECT_FALSE(numbersSamples(words({0, 3, 4, 8}), {2, 2}, 1, 4));
  EXPECT_FALSE(numbersSamples(words({0, 4}), {1, 2}, 1, 4)); // of another sample
  EXPECT_FALSE(numbersSamples(words({-1}), {1}, 1, 1));
  std::vector<int64_t> stacked = {0, 5, 0, 6, 1, 5, 1, 6}; // [2, 2, 2]
  EXPECT_TRUE(numbersSamples(words(stacked), {2, 2, 2}, 2, 1));
  stacked[7] = 7;
  EXPECT_FALSE(numbersSamples(words(stacked), {2, 2, 2}, 2, 1));
  EXPECT_FALSE(numbersSamples("", {2, 2, 2}, 2, 1));
}

TEST(SampleRows, ValuesInFilesAreFoundWhereTheyLie) {
  Folder folder;
  folder.write("w.bin", "0123456789");
  ConstantValues values(folder.path);
  GraphTensor tensor;
  EXPECT_EQ(values.bytesOf(tensor), "");
  tensor.external = ExternalData{"w.bin", 2, 3};
  EXPECT_EQ(values.bytesOf(tensor), "234");
  tensor.external->length = 9;
  EXPECT_EQ(values.bytesOf(tensor), "");
  tensor.external->file = "absent.bin";
  EXPECT_EQ(values.bytesOf(tensor), "");
  tensor.data = TensorData{DataType::Int8, {2}, "ab"};
  EXPECT_EQ(values.bytesOf(tensor), "ab");
}

} // namespace
