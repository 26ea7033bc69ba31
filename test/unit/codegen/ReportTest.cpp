#include "codegen/Report.h"

#include "codegen/Gantt.h"
#include "codegen/Html.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
Plan smallPlan() {
  Plan plan;
  plan.model = "<script>alert(1)</script>";
  plan.cluster = "two";
  plan.searchSpace = "pipelines-reduced";
  plan.globalBatch = Samples(48);
  plan.microBatches = 3;
  plan.iteration = Seconds(0.0125);
  plan.provenance = {0, 0, 0, 1, 0};
  for (int id = 0; id < 2; ++id) {
    Stage stage;
    stage.id = id;
    stage.layers = {"a" + std::to_string(id), "b & c"};
    stage.replicas = {{Samples(40), {}, {}, {{"v100", "gpu-0", 0}}},
                      {Samples(8), {}, {}, {{"t4", "gpu-1", 0}}}};
    stage.memory = Bytes(3 << 20);
    plan.stages.push_back(stage);
  }
  plan.checks = {{"memory", true, 5, "GiB"}, {"budget", false, -1, "$"}};
  return plan;
}

Timeline smallTimeline() {
  Timeline timeline;
  timeline.iteration = Seconds(0.002);
  timeline.events = {{0, 0, 0, Op::Forward, 0, Seconds(0), Seconds(0.001)},
                     {1, 0, 0, Op::Forward, 0, Seconds(0), Seconds(0.001)},
                     {2, 1, 0, Op::Backward, 0, Seconds(0.001), Seconds(0.002)}};
  return timeline;
}

int count(const std::string &text, const std::string &part) {
  int result = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++result;
  return result;
}
} // namespace

TEST(Report, NamesAreEscaped) {
  std::string html = emitReport(smallPlan(), smallTimeline());
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
  EXPECT_NE(html.find("b &amp; c"), std::string::npos);
}

TEST(Report, NothingComesFromOutside) {
  std::string html = emitReport(smallPlan(), smallTimeline());
  for (const char *part : {"http", "src=", "href=", "url(", "@import"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(Report, SaysWhatWasDecidedAndChecked) {
  std::string html = emitReport(smallPlan(), smallTimeline());
  EXPECT_NE(html.find("12.5 ms"), std::string::npos);
  EXPECT_NE(html.find("1 × v100 (gpu-0), 1 × t4 (gpu-1)"), std::string::npos);
  EXPECT_NE(html.find("1 × 40 + 1 × 8"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"bad\">no</td>"), std::string::npos);
  EXPECT_NE(html.find("modelled 100.0 %"), std::string::npos);
}

TEST(Report, ChartShowsTheFirstRankOfEachStage) {
  std::string svg = emitGantt(smallTimeline());
  EXPECT_EQ(count(svg, "<rect"), 2);
  EXPECT_NE(svg.find("forward 0: 0 ns to 1 ms"), std::string::npos) << svg;
}

TEST(Report, AParetoFrontHasAChartAndATable) {
  std::vector<Plan> plans(3, smallPlan());
  for (int i = 0; i < 3; ++i) {
    plans[i].throughput = SamplesPerSecond(100 + 100 * i);
    plans[i].costPerMillionSamples = Dollars(1 + i);
    plans[i].objective = Objective::Cost;
    plans[i].lowerBound = 0.9 + i;
    plans[i].optimal = i == 0;
  }
  ParetoPlans front{plans, 1};
  std::string html = emitReport(plans[1], smallTimeline(), front);
  EXPECT_EQ(count(html, "<circle"), 3);
  EXPECT_EQ(count(html, "<line class=\"bound\""), 2); // the optimal one has no room below it
  EXPECT_EQ(count(html, "<svg"), 2);
  EXPECT_NE(html.find("pareto/01/plan.json, shown above"), std::string::npos);
  EXPECT_EQ(emitReport(plans[1], smallTimeline()).find("<circle"), std::string::npos);
  EXPECT_EQ(emitParetoChart({llvm::ArrayRef(plans).take_front(1), 0}), "");
}

TEST(Report, EmptyTimelineHasNoChart) {
  EXPECT_EQ(emitGantt({}), "");
  EXPECT_EQ(emitReport(smallPlan(), {}).find("<svg"), std::string::npos);
}

TEST(Report, LongTimelineIsCutAndSaysSo) {
  Timeline timeline;
  for (int i = 0; i < 5000; ++i)
    timeline.events.push_back({0, 0, i, Op::Forward, i, Seconds(i), Seconds(i + 1)});
  std::string svg = emitGantt(timeline);
  EXPECT_EQ(count(svg, "<rect"), 4000);
  EXPECT_NE(svg.find("the first 4000 of 5000"), std::string::npos);
}

TEST(Report, UnitsAreReadable) {
  EXPECT_EQ(html::readable(Seconds(0.00123456)), "1.23 ms");
  EXPECT_EQ(html::readable(Seconds(75)), "75 s");
  EXPECT_EQ(html::readable(Bytes(16.0 * 1073741824)), "16 GiB");
  EXPECT_EQ(html::number(1234567), "1234567");
}

TEST(Report, ShardsOfTablesAreListed) {
  Plan plan = smallPlan();
  EXPECT_EQ(count(emitReport(plan, smallTimeline()), "Sparse tables"), 0);
  plan.stages[1].tables = {{"users & items", {4, 4, 3}}};
  std::string html = emitReport(plan, smallTimeline());
  EXPECT_EQ(count(html, "Sparse tables"), 1);
  EXPECT_EQ(count(html, "users &amp; items"), 1);
  EXPECT_EQ(count(html, "2 × 4 + 1 × 3"), 1);
}

TEST(Report, SaysWhatItsBoundIsAbout) {
  std::string html = emitReport(smallPlan(), smallTimeline());
  EXPECT_NE(html.find("of the searched space"), std::string::npos);
  EXPECT_NE(html.find("in the searched space pipelines-reduced"), std::string::npos);
}

TEST(Report, WidePartsScrollByThemselvesOnANarrowPage) {
  std::string html = emitReport(smallPlan(), smallTimeline());
  EXPECT_NE(html.find("width=device-width"), std::string::npos);
  EXPECT_NE(html.find("@media (max-width: 40rem)"), std::string::npos);
  EXPECT_NE(html.find("<div class=\"wide\">\n<table>"), std::string::npos);
  EXPECT_NE(html.find("<div class=\"wide\">\n<h2>Predicted timeline"), std::string::npos) << html;
}
