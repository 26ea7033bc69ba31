#include "codegen/Report.h"
#include "codegen/ModelRates.h"

#include "codegen/Gantt.h"
#include "codegen/Html.h"
#include "codegen/ModelPicture.h"

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

namespace {
/// `html` without the labels of its cells.
std::string withoutLabels(std::string html) {
  const std::string label = " data-label=\"";
  for (size_t at = html.find(label); at != std::string::npos; at = html.find(label))
    html.erase(at, html.find('"', at + label.size()) + 1 - at);
  return html;
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
  EXPECT_NE(withoutLabels(html).find("<td class=\"bad\">no</td>"), std::string::npos);
  EXPECT_NE(html.find("modelled 100.0 %"), std::string::npos);
}

TEST(Report, ChartShowsTheFirstRankOfEachStage) {
  std::string svg = emitGantt(smallTimeline());
  EXPECT_EQ(count(svg, "<rect"), 2);
  EXPECT_NE(svg.find("forward 0: 0 ns to 1 ms"), std::string::npos) << svg;
}

TEST(Report, SaysWhatLimitsThePlanAndWhatElseThereWas) {
  Plan plan = smallPlan(), other = smallPlan();
  plan.stages[0].forward = Seconds(0.002);
  plan.stages[1].forward = Seconds(0.004);
  plan.stages[1].receive = Seconds(0.001);
  plan.objectiveValue = 100;
  other.objectiveValue = 75;
  for (Stage &stage : other.stages)
    stage.replicas.pop_back(); // of a t4
  std::vector<AlternativePlan> others = {{AlternativeKind::OneTypeFewer, other}};
  PlanLimits limits{"budget", 1};
  ReportInputs inputs;
  inputs.alternatives = others;
  inputs.limits = &limits;
  std::string html = emitReport(plan, smallTimeline(), {}, inputs);
  EXPECT_NE(html.find("Stage 1 is the bottleneck: it needs 4 ms for a micro-batch (of which "
                      "receiving 1 ms); the other one needs 50.0 % of that."),
            std::string::npos);
  EXPECT_NE(html.find("closest to its limit is <b>budget</b>"), std::string::npos);
  EXPECT_NE(withoutLabels(html).find("one device type fewer (without t4)</td><td>25% worse"),
            std::string::npos);
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
  EXPECT_NE(html.find("of the search space"), std::string::npos);
  EXPECT_NE(html.find("in the search space pipelines-reduced"), std::string::npos);
}

TEST(Report, WidePartsScrollByThemselvesOnANarrowPage) {
  std::string html = emitReport(smallPlan(), smallTimeline());
  EXPECT_NE(html.find("width=device-width"), std::string::npos);
  EXPECT_NE(html.find("@media (max-width: 40rem)"), std::string::npos);
  EXPECT_NE(html.find("<div class=\"wide\">\n<table>"), std::string::npos);
  EXPECT_NE(html.find("<div class=\"wide\">\n<h2>Predicted timeline"), std::string::npos) << html;
}

namespace {
/// "a0" feeds "b & c" and "a1"; both feed "last", which is in no stage.
LayerGraph smallModel() {
  LayerGraph model;
  for (const char *name : {"a0", "b & c", "a1", "last"})
    model.layers.emplace_back().name = name;
  const std::pair<int, std::vector<int>> flows[] = {{0, {1, 2}}, {1, {3}}, {2, {3}}};
  for (const auto &[producer, consumers] : flows) {
    LayerTensor &tensor = model.tensors.emplace_back();
    tensor.producer = producer;
    tensor.consumers = consumers;
  }
  return model;
}

Cluster smallCluster() {
  Cluster cluster;
  cluster.types.resize(2);
  cluster.types[0].name = "v100";
  cluster.types[0].memory = Bytes(4 << 20);
  cluster.types[1].name = "t4";
  cluster.types[1].memory = Bytes(1 << 20);
  return cluster;
}
} // namespace

TEST(Report, LayersAreColouredByStage) {
  LayerGraph model = smallModel();
  ReportInputs inputs;
  inputs.model = &model;
  std::string html = emitReport(smallPlan(), {}, {}, inputs);
  EXPECT_NE(html.find("<title>a0 (opaque, stage 0)</title>"), std::string::npos);
  EXPECT_NE(html.find("<title>a1 (opaque, stage 1)</title>"), std::string::npos);
  EXPECT_NE(html.find("<title>last (opaque)</title>"), std::string::npos);
  EXPECT_NE(html.find("fill=\"gray\""), std::string::npos);
  EXPECT_NE(stageColour(0), stageColour(1));
  EXPECT_EQ(count(html, "fill=\"" + stageColour(0) + "\""), 1);
  // "b & c" and "a1" stand below each other, one column before "last".
  EXPECT_EQ(count(html, "<rect x=\"28\""), 2);
  EXPECT_EQ(count(html, "<rect x=\"48\""), 1);
}

TEST(Report, MemoryIsShownAgainstItsLimit) {
  Cluster cluster = smallCluster();
  ReportInputs inputs;
  inputs.cluster = &cluster;
  std::string html = emitReport(smallPlan(), {}, {}, inputs);
  EXPECT_NE(html.find("Memory of devices"), std::string::npos);
  EXPECT_NE(withoutLabels(html).find("<td>1 × v100</td><td>0, 1</td>"),
            std::string::npos); // both stages: 6 MiB of 4
  EXPECT_NE(html.find("150.0 %"), std::string::npos);
  EXPECT_NE(html.find("width:100.0%"), std::string::npos); // a bar ends at the limit
}

TEST(Report, CellsNameTheirColumn) {
  std::string html = emitReport(smallPlan(), {});
  EXPECT_NE(html.find("<td data-label=\"stage\""), std::string::npos);
}

TEST(Report, StatesTheRequestAndIdleDevices) {
  Cluster cluster = smallCluster();
  ReportInputs inputs;
  inputs.cluster = &cluster;
  Plan plan = smallPlan();
  plan.minThroughput = SamplesPerSecond(100);
  std::string html = emitReport(plan, {}, {}, inputs);
  EXPECT_NE(html.find("<h2>Request</h2>"), std::string::npos);
  EXPECT_NE(html.find("at least 100 samples/s"), std::string::npos);
  EXPECT_NE(html.find("<li>idle devices: "), std::string::npos);
}

TEST(Report, StatesTokensAndUtilisationIfTheyAreKnown) {
  Cluster cluster = smallCluster();
  LayerGraph model = smallModel();
  model.layers[0].kind = LayerKind::Embedding;
  model.layers[1].forwardFlops = Flops(1e6);
  model.layers[1].backwardFlops = Flops(2e6);
  KernelWork &kernel = model.layers[1].kernels.emplace_back();
  kernel.forwardFlops = Flops(1e6);
  kernel.product = {128, 64, 32, 1};
  model.tensors[0].shape = {{1, 0}, {0, 128}, {0, 32}};
  ReportInputs inputs;
  inputs.cluster = &cluster;
  inputs.model = &model;
  Plan plan = smallPlan();
  EXPECT_EQ(tokensPerSample(model), 128);
  std::string html = emitReport(plan, {}, {}, inputs);
  EXPECT_NE(html.find(" tokens/s"), std::string::npos);
  EXPECT_EQ(html.find("utilisation"), std::string::npos); // the cluster states no peak rates

  for (DeviceType &type : cluster.types)
    type.rates.emplace().fp32 = FlopsPerSecond(1e12);
  EXPECT_DOUBLE_EQ(*modelUtilisation(plan, cluster, model),
                   3e6 * double(plan.globalBatch.value()) / (2e12 * plan.iteration.value()));
  EXPECT_NE(emitReport(plan, {}, {}, inputs).find("utilisation"), std::string::npos);

  // A lookup of 128 rows whose products do not follow the sequence is no sequence of tokens.
  model.layers[1].kernels[0].product.rows = 1;
  EXPECT_EQ(tokensPerSample(model), std::nullopt);
}

TEST(Report, EveryRankIsListedOnDemand) {
  Program program;
  program.ranks.resize(2);
  program.ranks[1].rank = 1;
  program.ranks[1].device = {"t<4", "gpu", 3};
  program.ranks[1].parts.resize(1);
  program.ranks[1].parts[0].stage = 1;
  program.ranks[1].parts[0].samples = {0, 5};
  ReportInputs inputs;
  inputs.program = &program;
  std::string html = emitReport(smallPlan(), {}, {}, inputs);
  EXPECT_NE(html.find("<details><summary>2 ranks</summary>"), std::string::npos);
  EXPECT_NE(withoutLabels(html).find("<td>t&lt;4 3 of gpu</td>"), std::string::npos);
}

TEST(Report, ChecksThatHoldAreFoldedAway) {
  Plan plan = smallPlan();
  std::string html = emitReport(plan, {});
  EXPECT_NE(html.find("<summary>1 check holds</summary>"), std::string::npos);
  EXPECT_LT(html.find("budget"), html.find("check holds</summary>")); // what fails is shown
  plan.checks.pop_back();
  EXPECT_NE(emitReport(plan, {}).find("<summary>All 1 check holds</summary>"), std::string::npos);
}
