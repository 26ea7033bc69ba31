#include "support/Progress.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {

/// A Progress on a string, with a clock that the test turns.
struct ProgressTest : testing::Test {
  Seconds now{100};
  std::string written;
  llvm::raw_string_ostream os{written};

  Progress make(bool enabled = true) {
    return Progress(
        os, "planning", [this] { return now; }, enabled, Seconds(0.5));
  }
};

TEST_F(ProgressTest, IsSilentWithoutATerminal) {
  {
    Progress progress = make(/*enabled=*/false);
    now = Seconds(200);
    progress.update(0.5);
  }
  EXPECT_EQ(os.str(), "");
}

TEST_F(ProgressTest, ShowsShareTimeLeftAndDetail) {
  Progress progress = make();
  now += Seconds(30);
  progress.update(0.25, "best 12 ms");
  EXPECT_EQ(os.str(), "planning  25%, 1 min 30 s left, best 12 ms");
}

TEST_F(ProgressTest, DoesNotGuessTheTimeLeftEarly) {
  Progress progress = make();
  now += Seconds(0.9);
  progress.update(0.5);
  EXPECT_EQ(os.str(), "planning  50%");
  now += Seconds(10);
  written.clear();
  progress.update(0.005);
  EXPECT_EQ(os.str(), "\r\033[Kplanning   0%");
}

TEST_F(ProgressTest, IsRateLimited) {
  Progress progress = make();
  progress.update(0.1);
  EXPECT_EQ(os.str(), "") << "short work shows nothing at all";
  now += Seconds(0.5);
  progress.update(0.2);
  std::string once = os.str();
  now += Seconds(0.49);
  progress.update(0.3);
  EXPECT_EQ(os.str(), once);
}

TEST_F(ProgressTest, ClearErasesTheLineOnce) {
  Progress progress = make();
  now += Seconds(1);
  progress.update(0);
  written.clear();
  progress.clear();
  progress.clear();
  EXPECT_EQ(os.str(), "\r\033[K");
}

TEST_F(ProgressTest, ErasesTheLineAtTheEnd) {
  {
    Progress progress = make();
    now += Seconds(1);
    progress.update(0.5);
  }
  EXPECT_TRUE(llvm::StringRef(os.str()).endswith("\r\033[K"));
}

TEST_F(ProgressTest, ClampsNonsenseAndCutsLongLines) {
  Progress progress = make();
  now += Seconds(0.5);
  progress.update(7);
  EXPECT_EQ(os.str(), "planning 100%");
  for (double share : {-1.0, std::nan(""), -HUGE_VAL}) {
    now += Seconds(0.5);
    written.clear();
    progress.update(share, std::string(500, 'x'));
    EXPECT_EQ(os.str().substr(0, 20), "\r\033[Kplanning   0%, x");
    EXPECT_EQ(os.str().size(), 79 + std::string("\r\033[K").size());
  }
}

TEST(DurationText, IsShortAndReadable) {
  EXPECT_EQ(durationText(Seconds(0)), "0.0 s");
  EXPECT_EQ(durationText(Seconds(0.44)), "0.4 s");
  EXPECT_EQ(durationText(Seconds(9.94)), "9.9 s");
  EXPECT_EQ(durationText(Seconds(9.96)), "10 s");
  EXPECT_EQ(durationText(Seconds(59.4)), "59 s");
  EXPECT_EQ(durationText(Seconds(59.6)), "1 min 0 s");
  EXPECT_EQ(durationText(Seconds(200)), "3 min 20 s");
  EXPECT_EQ(durationText(Seconds(3599.6)), "1 h 0 min");
  EXPECT_EQ(durationText(Seconds(7500)), "2 h 5 min");
  EXPECT_EQ(durationText(Seconds(-5)), "0.0 s");
  EXPECT_EQ(durationText(Seconds(HUGE_VAL)), "very long");
}

} // namespace
