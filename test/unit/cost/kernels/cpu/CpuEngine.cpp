#include "../Harness.h"

#include "cost/kernels/cpu/Engine.h"

heterplan::kernels::Engine *heterplan::kernels::engineUnderTest(std::string &) {
  static const std::unique_ptr<Engine> only = cpu::openEngine(1);
  return only.get();
}
