// Paths between groups of devices.
#include "search/network/Transfers.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Options that look alike from a boundary have one path.
TEST(PathTable, pathsAreThoseOfTheGroups) {
  size_t pairs = 0, shared = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const test::RandomProblem random(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const Evaluator evaluator(problem);
    PathTable paths(evaluator);
    const std::vector<GroupOption> &options = evaluator.space.options;
    const Samples from(7), to(5);
    for (int before = 0; before < int(options.size()); ++before)
      for (int behind = 0; behind < int(options.size()); ++behind) {
        const TransferPath own =
            transferPath(problem.cluster, options[before].group, options[behind].group);
        const TransferPath known = paths.at(before, behind);
        EXPECT_EQ(known.time(from, to, Bytes(100), Bytes(10)),
                  own.time(from, to, Bytes(100), Bytes(10)));
        EXPECT_EQ(known.reversed().time(from, to, Bytes(100), Bytes(10)),
                  own.reversed().time(from, to, Bytes(100), Bytes(10)));
        ++pairs;
        shared += options[before].group.besideNext && options[behind].group.besideBefore;
      }
  }
  EXPECT_GT(pairs, 5000u);
  EXPECT_GT(shared, 100u);
}
} // namespace
