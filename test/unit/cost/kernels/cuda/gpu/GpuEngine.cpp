#include "../../Harness.h"

#include "cost/kernels/cuda/Engine.h"
#include "support/Diagnostic.h"

using namespace heterplan;
using namespace heterplan::kernels;

Engine *heterplan::kernels::engineUnderTest(std::string &whyNot) {
  static std::string why;
  static const std::unique_ptr<Engine> only = [] {
    auto engine = cuda::openEngine(0, Precision::Fp32);
    if (!engine)
      why = toText(engine.takeError());
    return engine ? std::move(*engine) : nullptr;
  }();
  whyNot = why;
  return only.get();
}
