// Models that were written for a batch of one, and tables in them that have a row for it.
#include "../Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

Failure gathered(std::vector<int64_t> table) {
  auto proto = model("g (int64[1, 4] ids, float[1, 4] x) => (float[1, 4] z) { y = "
                     "GatherElements<axis = 1>(t, ids) z = Add(y, x) }");
  weight(proto, "t", std::move(table));
  return failure(import(proto));
}

TEST(FixedBatch, AllSamplesReadTheOneRowOfATable) { EXPECT_EQ(gathered({1, 16}).text, ""); }

TEST(FixedBatch, OneOfSeveralRowsIsThatOfTheSample) {
  Failure error = gathered({2, 16});
  EXPECT_EQ(error.code, Diag::NoBatchDimension) << error.text;
  EXPECT_NE(error.text.find("written for a batch of 1"), std::string::npos) << error.text;
}

TEST(FixedBatch, RowsThatArePickedByTheNumberOfTheSampleAreRefused) {
  auto proto = model("g (float[1, 3] x) => (float[1, 3] z) <int64 zero = {0}, int64 one = {1}> { s "
                     "= Shape(x) n = Gather(s, zero) r = Range(zero, n, one) y = Gather(t, r) z = "
                     "Add(x, y) }");
  weight(proto, "t", {4, 3});
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::NoBatchDimension) << error.text;
  EXPECT_NE(error.text.find("picks rows"), std::string::npos) << error.text;
}

} // namespace
