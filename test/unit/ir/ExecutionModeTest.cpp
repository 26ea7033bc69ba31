#include "ir/ExecutionMode.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

TEST(ExecutionMode, shardingsDivideMoreAndMore) {
  struct Expected {
    StateSharding state;
    bool divides, scatters, scattersAtEnd, gathers;
  };
  for (const Expected &each : {Expected{StateSharding::None, false, false, false, false},
                               {StateSharding::Optimizer, true, false, true, false},
                               {StateSharding::Gradients, true, true, false, false},
                               {StateSharding::Parameters, true, true, false, true}}) {
    const StageSharding sharding{each.state};
    SCOPED_TRACE(nameOf(each.state));
    EXPECT_EQ(sharding.dividesState(), each.divides);
    EXPECT_EQ(sharding.scattersGradients(), each.scatters);
    EXPECT_EQ(sharding.scattersAtEnd(), each.scattersAtEnd);
    EXPECT_EQ(sharding.gathersParameters(), each.gathers);
    EXPECT_EQ(partsOf(each.state)[0] != '\0', each.divides);
  }
}

TEST(ExecutionMode, whatIsAskedAdmitsModes) {
  const ExecutionMode kept{}, again{true, {}}, sharded{false, {StateSharding::Gradients}};
  ModeRequest any, never{RecomputePolicy::Never, {}}, always{RecomputePolicy::Always, {}};
  for (const ExecutionMode &mode : {kept, again, sharded})
    EXPECT_TRUE(any.admits(mode, 2));
  EXPECT_TRUE(never.admits(kept, 2) && !never.admits(again, 2));
  EXPECT_TRUE(!always.admits(kept, 2) && always.admits(again, 2));
  const ModeRequest gradients{RecomputePolicy::Auto, StateSharding::Gradients};
  EXPECT_TRUE(gradients.admits(sharded, 2) && !gradients.admits(kept, 2));
  EXPECT_TRUE(gradients.admits(kept, 1)) << "one replica divides nothing";
  EXPECT_TRUE(gradients.mustDivideState() && any.mayDivideState() && !any.mustDivideState());
  const ModeRequest none{RecomputePolicy::Auto, StateSharding::None};
  EXPECT_TRUE(!none.mayDivideState() && !none.mustDivideState());
}

} // namespace
