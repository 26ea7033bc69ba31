// Reductions, moves and looking up.
#include "Harness.h"

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
TEST_F(KernelTest, Reductions) {
  auto sums = [](const std::vector<Values> &in) { // (2, 3, 4) over its axes 0 and 2
    Values result(3);
    for (int i = 0; i < 24; ++i)
      result[i / 4 % 3] += in[0][i];
    return result;
  };
  std::map<std::string, Attribute> axes = {{"axes", std::vector<int64_t>{0, -1}}};
  check({"ReduceMean",
         {{2, 3, 4}},
         {1, 3, 1},
         [=](const std::vector<Values> &in) {
           Values result = sums(in);
           for (double &value : result)
             value /= 8;
           return result;
         },
         axes,
         {}});
  check({"ReduceSum", {{2, 3, 4}}, {3}, sums, {}, {integers({0, 2})}});
}

TEST_F(KernelTest, Movement) {
  check({"Transpose",
         {{2, 3, 4}},
         {4, 2, 3},
         [](const std::vector<Values> &in) {
           Values y;
           for (int k = 0; k < 4; ++k)
             for (int i = 0; i < 6; ++i)
               y.push_back(in[0][i * 4 + k]);
           return y;
         },
         {{"perm", std::vector<int64_t>{2, 0, 1}}},
         {}});
  check({"Concat",
         {{2, 2}, {2, 3}},
         {2, 5},
         [](const std::vector<Values> &in) {
           const Values &a = in[0], &b = in[1];
           return Values{a[0], a[1], b[0], b[1], b[2], a[2], a[3], b[3], b[4], b[5]};
         },
         {{"axis", int64_t(1)}},
         {}});
  check({"Slice",
         {{2, 5}},
         {2, 2},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{x[2], x[3], x[7], x[8]};
         },
         {},
         {integers({-3}), integers({4}), integers({1})}});
  check({"Pad",
         {{2, 2}},
         {3, 3},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{0, x[0], x[1], 0, x[2], x[3], 0, 0, 0};
         },
         {},
         {integers({0, 1, 1, 0})}});
}

TEST_F(KernelTest, GatherSumsTheGradientsOfARow) {
  check({"Gather",
         {{3, 2}},
         {4, 2},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{x[2], x[3], x[4], x[5], x[2], x[3], x[4], x[5]};
         },
         {},
         {integers({1, -1, 1, 2})}});
  check({"Gather",
         {{2, 3}},
         {2, 1},
         [](const std::vector<Values> &in) {
           return Values{in[0][1], in[0][4]};
         },
         {{"axis", int64_t(1)}},
         {integers({1})}});
}

TEST_F(KernelTest, SplitReachesEveryPart) {
  Graph graph = graphOf({"Split", {{2, 4}}, {2, 1}, {}, {{"axis", int64_t(1)}}, {}});
  graph.nodes[0].outputs.push_back(add(graph, {2, 3}, DataType::Float32));
  std::unique_ptr<Kernel> kernel = makeFilled(engine(), graph);
  ASSERT_TRUE(kernel);
  run(*kernel);
  Values x = wide(*kernel, {Place::Input, 0});
  EXPECT_EQ(wide(*kernel, {Place::Output, 0}), (Values{x[0], x[4]}));
  EXPECT_EQ(wide(*kernel, {Place::Output, 1}), (Values{x[1], x[2], x[3], x[5], x[6], x[7]}));
  Values a = wide(*kernel, {Place::Output, 0, true}), b = wide(*kernel, {Place::Output, 1, true});
  EXPECT_EQ(wide(*kernel, {Place::Input, 0, true}),
            (Values{a[0], b[0], b[1], b[2], a[1], b[3], b[4], b[5]}));
}
} // namespace
