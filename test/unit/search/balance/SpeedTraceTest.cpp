#include "search/balance/SpeedTrace.h"

#include "support/Diagnostic.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
std::string complaintAbout(llvm::StringRef text) {
  llvm::Expected<SpeedTrace> trace = parseSpeedTrace(text, "s.csv");
  return trace ? "" : toText(trace.takeError());
}
} // namespace

TEST(SpeedTrace, secondsAreRelativeToTheirMedian) {
  auto trace = parseSpeedTrace("seconds,a,b,b.cpu\n0,1,2,0.5\n\n7,2,4,1\r\n", "s.csv");
  ASSERT_TRUE(bool(trace));
  EXPECT_EQ(trace->workers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trace->at(0, 0).speed, 2);
  EXPECT_EQ(trace->at(1, 1).speed, 0.5);
  EXPECT_EQ(trace->at(3, 1).cpu, 1) << "it begins anew at its end";
}

TEST(SpeedTrace, complaintsHaveAPlace) {
  EXPECT_NE(complaintAbout("").find("s.csv:1:1"), std::string::npos);
  EXPECT_NE(complaintAbout("time,a\n0,1\n").find("s.csv:1:1"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a,a\n").find("s.csv:1:9"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,b.cpu\n").find("s.csv:1:7"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a,b\n0,1\n").find("the first line has 3"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a,b\n0,1,0\n").find("s.csv:2:5"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a,b\n0,1,nan\n").find("s.csv:2:5"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a,b\n0,-1,1\n").find("s.csv:2:3"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a,a.memory\n0,1,1.5\n").find("s.csv:2:5"), std::string::npos);
  EXPECT_NE(complaintAbout("speed,a\nx,1\n").find("s.csv:2:1"), std::string::npos);
}

TEST(SpeedTrace, drawnTracesAreTheSameForASeedAndReadBackEqual) {
  for (const GeneratedTrace &kind : generatedTraces()) {
    SpeedTrace trace = generateTrace(kind.name, 3, 50, 7);
    EXPECT_EQ(trace, generateTrace(kind.name, 3, 50, 7));
    EXPECT_NE(trace, generateTrace(kind.name, 3, 50, 8));
    auto again = parseSpeedTrace(toCsv(trace), "s.csv");
    ASSERT_TRUE(bool(again)) << kind.name;
    EXPECT_EQ(*again, trace) << kind.name;
  }
}
