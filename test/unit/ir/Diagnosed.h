// The message of an Expected that fails, for tests of diagnostics.
#pragma once

#include "support/Diagnostic.h"

#include <gtest/gtest.h>

#include <optional>

namespace heterplan::test {

/// The diagnostic in `error`; fails the test when there is none.
inline DiagnosticError diagnosed(llvm::Error error) {
  DiagnosticError result;
  bool any = false;
  llvm::handleAllErrors(std::move(error), [&](const DiagnosticError &diagnostic) {
    result = diagnostic;
    any = true;
  });
  EXPECT_TRUE(any) << "no error";
  return result;
}

template <typename T> DiagnosticError diagnosed(llvm::Expected<T> value) {
  return diagnosed(value.takeError());
}

} // namespace heterplan::test
