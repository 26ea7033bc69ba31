#include "ir/Timeline.h"

#include "ir/FileForms.h"

#include "Diagnosed.h"

#include <gtest/gtest.h>

#include <functional>

using namespace heterplan;
using heterplan::test::diagnosed;

namespace {
Timeline smallTimeline() {
  Timeline timeline;
  timeline.iteration = Seconds(3);
  timeline.events = {{0, 0, 0, Op::Load, 0, Seconds(0), Seconds(0)},
                     {0, 0, 1, Op::Forward, 0, Seconds(0), Seconds(1)},
                     {0, 0, 2, Op::Backward, 0, Seconds(1), Seconds(3)},
                     {1, 0, 0, Op::Forward, 0, Seconds(0), Seconds(2)}};
  return timeline;
}

struct Mutation {
  const char *message;
  std::function<void(Timeline &)> change;
};
class TimelineDefect : public testing::TestWithParam<Mutation> {};

TEST_P(TimelineDefect, IsDiagnosed) {
  Timeline timeline = smallTimeline();
  GetParam().change(timeline);
  DiagnosticError error = diagnosed(timeline.verify());
  EXPECT_EQ(error.code, Diag::InvalidProgram);
  EXPECT_NE(error.message.find(GetParam().message), std::string::npos) << error.message;
}

INSTANTIATE_TEST_SUITE_P(
    Timeline, TimelineDefect,
    testing::Values(
        Mutation{"not a time", [](Timeline &t) { t.iteration = Seconds(-1); }},
        Mutation{"negative rank", [](Timeline &t) { t.events[0].rank = -1; }},
        Mutation{"ends before", [](Timeline &t) { t.events[1].end = Seconds(-0.5); }},
        Mutation{"later rank", [](Timeline &t) { std::swap(t.events[0], t.events[3]); }},
        Mutation{"one before it", [](Timeline &t) { t.events[2].begin = Seconds(0.5); }}));
} // namespace

TEST(Timeline, SmallOneIsValid) {
  auto error = smallTimeline().verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
}

TEST(Timeline, ChromeTraceIsInMicroseconds) {
  std::string text = toJson(smallTimeline());
  EXPECT_NE(text.find("\"dur\": 2000000"), std::string::npos) << text;
  EXPECT_NE(text.find("\"ph\": \"X\""), std::string::npos);
}

TEST(Timeline, MeasuredTraceNeedsNoExactTimes) {
  auto timeline = parseTimeline(R"({
    "traceEvents": [
      {"name": "backward", "ph": "X", "ts": 20, "dur": 5, "pid": 0, "tid": 0, "args": {"index": 1}},
      {"name": "forward", "ph": "X", "ts": 10, "dur": 5, "pid": 0, "tid": 0,
       "args": {"index": 0, "microBatch": 2}}],
    "otherData": {"schemaVersion": "1.0", "measured": true, "iterationSeconds": 3e-5}})",
                                "x");
  ASSERT_TRUE(bool(timeline)) << toText(timeline.takeError());
  EXPECT_EQ(timeline->events[0].op, Op::Forward);
  EXPECT_EQ(timeline->events[0].microBatch, 2);
  EXPECT_DOUBLE_EQ(timeline->events[1].end.value(), 25e-6);
  EXPECT_EQ(timeline->events[1].microBatch, -1);
}

TEST(Timeline, TraceWithoutVersionIsRefused) {
  EXPECT_EQ(diagnosed(parseTimeline(R"({"traceEvents": []})", "x")).code, Diag::MissingField);
  DiagnosticError error = diagnosed(parseTimeline(
      R"({"traceEvents": [{"name": "jump", "ts": 0, "dur": 0, "pid": 0, "tid": 0,
          "args": {"index": 0}}],
          "otherData": {"schemaVersion": "1.0", "iterationSeconds": 0}})",
      "x"));
  EXPECT_EQ(error.code, Diag::WrongType);
  EXPECT_EQ(error.location.element, "traceEvents[0].name");
}
