#include "support/JsonWriter.h"

#include <gtest/gtest.h>

#include <limits>

using namespace heterplan;

namespace {

std::string quoted(llvm::StringRef text) {
  std::string result;
  llvm::raw_string_ostream os(result);
  writeJsonString(os, text);
  return os.str();
}

TEST(JsonWriter, NestsObjectsAndArrays) {
  std::string result;
  llvm::raw_string_ostream os(result);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("name", "a");
    json.attributeArray("rows", [&] {
      json.value(1);
      json.object([&] { json.attribute("holds", true); });
    });
    json.attributeArray("none", [] {});
    json.attribute("half", 0.5);
  });
  EXPECT_EQ(os.str(), "{\n  \"name\": \"a\",\n  \"rows\": [\n    1,\n    {\n      \"holds\": true\n"
                      "    }\n  ],\n  \"none\": [],\n  \"half\": 0.5\n}\n");
}

TEST(JsonWriter, NumbersReadBackAndInfinityIsNull) {
  std::string result;
  llvm::raw_string_ostream os(result);
  JsonWriter json(os);
  json.array([&] {
    json.value(0.1);
    json.value(1e300);
    json.value(std::numeric_limits<double>::infinity());
    json.value(std::numeric_limits<double>::quiet_NaN());
  });
  EXPECT_EQ(os.str(), "[\n  0.1,\n  1e+300,\n  null,\n  null\n]\n");
}

TEST(JsonWriter, EscapesControlsAndQuotes) {
  EXPECT_EQ(quoted("a\"b\\c\n\t\r\x01"), R"("a\"b\\c\n\t\r\u0001")");
}

TEST(JsonWriter, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(quoted("8\xC3\x97v100"), "\"8\xC3\x97v100\"");
  EXPECT_EQ(quoted("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

} // namespace
