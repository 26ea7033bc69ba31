#include "search/jobs/policy/Policies.h"

namespace heterplan::jobs {

llvm::ArrayRef<PolicyInfo> policies() {
  static const PolicyInfo all[] = {
#define HETERPLAN_POLICY(name, Class, tried, help) {name, help, tried},
#include "search/jobs/policy/Policies.def"
  };
  return all;
}

std::unique_ptr<Policy> makePolicy(llvm::StringRef name) {
#define HETERPLAN_POLICY(known, Class, tried, help)                                                \
  if (name == known)                                                                               \
    return std::make_unique<Class>();
#include "search/jobs/policy/Policies.def"
  return nullptr;
}

} // namespace heterplan::jobs
