// Several threads compute the same values as one, but for the rounding of what vector instructions
// compute at another place of a run.
#include "../Harness.h"

#include "cost/kernels/cpu/Engine.h"

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
/// Results and gradients of inputs.
std::vector<std::vector<float>> valuesOf(const Case &test, int threads) {
  std::unique_ptr<Engine> engine = cpu::openEngine(threads);
  std::vector<std::vector<float>> values;
  Graph graph = graphOf(test);
  if (std::unique_ptr<Kernel> kernel = makeFilled(*engine, graph)) {
    run(*kernel);
    values.push_back(kernel->read({Place::Output, 0}));
    for (size_t index = 0; index < test.inputs.size(); ++index)
      values.push_back(kernel->read({Place::Input, index, true}));
  }
  std::unique_ptr<Update> update = engine->makeUpdate(Optimizer::Adam, 100000);
  update->run();
  values.push_back(update->values());
  cpu::openEngine(1); // for the other tests
  return values;
}

void expectSame(const Case &test) {
  auto one = valuesOf(test, 1), several = valuesOf(test, 3);
  ASSERT_EQ(one.size(), test.inputs.size() + 2);
  for (size_t which = 0; which < one.size(); ++which)
    expectNear({several[which].begin(), several[which].end()},
               {one[which].begin(), one[which].end()}, test.op);
}

Case caseOf(const char *op, std::vector<Dims> inputs, Dims output) {
  Case test;
  test.op = op;
  test.inputs = std::move(inputs);
  test.output = std::move(output);
  return test;
}

TEST(ThreadsTest, ComputeWhatOneDoes) {
  Dims wide{7, 64, 513};
  expectSame(caseOf("Mul", {wide, wide}, wide));
  expectSame(caseOf("Div", {wide, {513}}, wide));
  expectSame(caseOf("Mul", {wide, {64, 1}}, wide));
  expectSame(caseOf("Mul", {{7, 1, 513}, {64, 1}}, wide));
  expectSame(caseOf("Mul", {wide, {1}}, wide));
  expectSame(caseOf("Erf", {wide}, wide));
  Case mean = caseOf("ReduceMean", {wide}, {7, 1, 513});
  mean.attributes["axes"] = std::vector<int64_t>{1};
  expectSame(mean);
  Dims rows(999);
  for (size_t index = 0; index < rows.size(); ++index)
    rows[index] = int64_t(index * index % 64);
  Case gather = caseOf("Gather", {{64, 513}}, {999, 513});
  gather.constants = {integers(rows)};
  expectSame(gather);
}
} // namespace
