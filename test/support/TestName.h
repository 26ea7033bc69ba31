// Names of things as GoogleTest takes them for names of tests: letters, digits and underscores.
#pragma once

#include <cctype>
#include <string>

namespace heterplan::test {

inline std::string testName(std::string name) {
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

} // namespace heterplan::test
