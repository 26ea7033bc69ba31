#include "support/Text.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {

TEST(Text, CutsBetweenCharacters) {
  llvm::StringRef text = "aéb"; // é has two bytes
  EXPECT_EQ(headOf(text, 1), "a");
  EXPECT_EQ(headOf(text, 2), "a");
  EXPECT_EQ(headOf(text, 3), "aé");
  EXPECT_EQ(headOf(text, 9), text);
  EXPECT_EQ(tailOf(text, 1), "b");
  EXPECT_EQ(tailOf(text, 2), "b");
  EXPECT_EQ(tailOf(text, 3), "éb");
  EXPECT_EQ(tailOf(text, 9), text);
}

TEST(Text, ShortensToTheWidth) {
  EXPECT_EQ(shortened("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shortened("abcdefghijk", 10), "abc...hijk");
  std::string wide;
  for (int i = 0; i < 100; ++i)
    wide += "é";
  std::string narrow = shortened(wide, 10);
  EXPECT_LE(columnsOf(narrow), 10u);
  EXPECT_NE(narrow.find("é...é"), std::string::npos);
}

} // namespace
