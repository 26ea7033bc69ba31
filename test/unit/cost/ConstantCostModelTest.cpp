#include "cost/ConstantCostModel.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
Layer layer(const char *name) {
  Layer result;
  result.name = result.signature = name;
  return result;
}
DeviceType device(const char *name) {
  DeviceType result;
  result.name = name;
  return result;
}

TEST(ConstantCostModel, ScalesWithBatchAndSpeed) {
  ConstantCostModel model;
  model.layer("a", {Seconds(1), Seconds(2), Seconds(3), Seconds(4)}).speed("fast", 2);
  auto cost = model.price(layer("a"), device("fast"), Samples(10));
  ASSERT_TRUE(bool(cost));
  EXPECT_EQ(cost->forward, Seconds(7));
  EXPECT_EQ(cost->backward, Seconds(12));
  EXPECT_EQ(cost->update, Seconds(1.5));
}

TEST(ConstantCostModel, EntryWinsOverLayerAndSpeed) {
  ConstantCostModel model;
  model.layer("a", {Seconds(1), Seconds(2)}).speed("slow", 0.5);
  model.entry("a", "slow", {Seconds(5), Seconds(6)});
  auto cost = model.price(layer("a"), device("slow"), Samples(1));
  ASSERT_TRUE(bool(cost));
  EXPECT_EQ(cost->forward, Seconds(5));
}

TEST(ConstantCostModel, RefusesWhatItDoesNotKnow) {
  auto cost = ConstantCostModel().price(layer("a"), device("d"), Samples(1));
  ASSERT_FALSE(bool(cost));
  EXPECT_NE(toText(cost.takeError()).find("[HP1401]"), std::string::npos);
}
} // namespace
