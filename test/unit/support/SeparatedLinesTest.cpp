#include "support/SeparatedLines.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
using Fields = std::vector<std::string>;

struct Lines {
  explicit Lines(llvm::StringRef text, char separator = ',') : lines(text, "t.csv", separator, 1) {}

  Fields next() {
    Fields fields;
    if (lines.next())
      for (size_t i = 0; i < lines.size(); ++i)
        fields.push_back(lines.field(i).str());
    return fields;
  }
  std::string error() {
    llvm::Error wrong = lines.take();
    return wrong ? toText(std::move(wrong)) : "";
  }
  SeparatedLines lines;
};
} // namespace

TEST(SeparatedLines, SplitsAtEverySeparator) {
  Lines test("a,,b\r\n\n,\nlast");
  EXPECT_EQ(test.next(), (Fields{"a", "", "b"}));
  EXPECT_EQ(test.next(), (Fields{"", ""}));
  EXPECT_EQ(test.next(), (Fields{"last"}));
  EXPECT_EQ(test.next(), Fields{});
  EXPECT_EQ(test.error(), "");
}

TEST(SeparatedLines, ReadsQuotedFields) {
  Lines test("\xEF\xBB\xBF\"a,b\",\"\", \"say \"\"hi\"\"\" ,5\" wide\n\"x\",\n");
  EXPECT_EQ(test.next(), (Fields{"a,b", "", "say \"hi\"", "5\" wide"}));
  EXPECT_EQ(test.next(), (Fields{"x", ""}));
  EXPECT_EQ(Lines("\"a\tb\"", '\t').next(), (Fields{"\"a", "b\""}));
}

TEST(SeparatedLines, RefusesOpenQuotationMarks) {
  for (const char *text : {"1,\"a", "1,\"a\"b,2", "1,\"a\"\"", "1,\""}) {
    Lines test(text);
    EXPECT_EQ(test.next(), Fields{}) << text;
    EXPECT_EQ(test.error(),
              "t.csv:1:3: error: [HP1216] the quotation mark is not closed at the end "
              "of the field")
        << text;
  }
}

TEST(SeparatedLines, ReadsNumbersAndMissingValues) {
  Lines test("NaN, none ,,2.0,\"x\",-1");
  ASSERT_EQ(test.next().size(), 6U);
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(test.lines.isMissing(i), i < 3) << i;
  EXPECT_EQ(test.lines.real(0, "a"), 0);
  EXPECT_EQ(test.lines.whole(3, "d", 1, 9), 2);
  EXPECT_EQ(test.lines.real(4, "e"), 0);
  test.lines.expect("a later form");
  EXPECT_EQ(test.error(),
            "t.csv:1:17: error: [HP1216] e is 'x'; numbers from 0 to 1e18 are accepted");
}
