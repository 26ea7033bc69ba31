// heterplan verify: checks every constraint of a plan against model and cluster, independently, and
// that the files of its directory belong to it.
#include "Commands.h"
#include "Inputs.h"
#include "PlanText.h"
#include "Table.h"

#include "codegen/Manifest.h"
#include "codegen/PackageCheck.h"
#include "ir/PlanShards.h"
#include "search/Search.h"
#include "search/verify/Checker.h"
#include "search/verify/ShardRules.h"
#include "search/verify/Statements.h"
#include "search/verify/bound/OptimalityBound.h"
#include "support/JsonWriter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

using namespace heterplan;
using namespace llvm;

namespace {

struct VerifyOptions {
  std::string plan, model, background;
  CostOptions costs;
  ModelOptions reading;
  bool json = false, verbose = false;
};

/// A claim that nobody checks: why, and the fields of plan.json that state it.
struct Unchecked {
  std::string name, why;
  std::vector<const char *> fields = {};
};

/// The gap that a certificate proves, and the one that the plan states.
struct Optimality {
  VerifiedBound verified;
  double claimedGap = 0;
  bool isOfWholeLayers = false; // plans with shared layers have no certificate
};

/// The checks, and the claims of the plan that were not checked.
struct Report {
  std::vector<Finding> findings;
  std::vector<Unchecked> unchecked;
  std::optional<Optimality> optimality = std::nullopt;

  bool holds() const {
    return all_of(findings, [](const Finding &finding) { return finding.check.holds; });
  }
  /// A check without slack; it fails at the first of `wrong`.
  void add(const char *name, ArrayRef<std::string> wrong) {
    Check check{name, wrong.empty(), wrong.empty() ? 0 : -double(wrong.size()), "files"};
    findings.push_back({check, wrong.empty() ? "" : wrong.front()});
  }
};

void printEveryCheck(const Report &report) {
  Table table({"check", "result", ">slack"});
  for (const Finding &finding : report.findings)
    table.row(
        {finding.check.name, finding.check.holds ? "holds" : "FAILS", slackText(finding.check)});
  for (const Unchecked &each : report.unchecked)
    table.row({each.name, "not checked", "-"});
  table.print(outs());
  for (const Finding &finding : report.findings)
    if (!finding.because.empty())
      outs() << finding.check.name << ": " << finding.because << '\n';
  for (const Unchecked &each : report.unchecked)
    outs() << each.name << ": not checked (" << each.why << ")\n";
  outs() << '\n';
}

/// The checks that fail, with the reason of each.
void printFailures(const Report &report) {
  for (const Finding &finding : report.findings)
    if (!finding.check.holds)
      outs() << finding.check.name << " FAILS"
             << (finding.because.empty() ? "" : ": " + finding.because) << '\n';
}

/// A gap in per cent that is at least `gap`.
std::string gapText(double gap) {
  std::string text;
  raw_string_ostream(text) << format("%.2f %%", std::max(0.0, std::ceil(gap * 1e4 - 1e-6) / 100));
  return text;
}

void printOptimality(const Report &report) {
  if (!report.optimality)
    return;
  outs() << "optimality: gap of at most " << gapText(report.optimality->verified.gap) << " verified"
         << (report.optimality->isOfWholeLayers ? " for whole layers" : "")
         << "; the search claims " << gapText(report.optimality->claimedGap) << '\n';
}

void printSummary(const Report &report) {
  size_t all = report.findings.size();
  size_t failed = count_if(report.findings, [](const Finding &each) { return !each.check.holds; });
  outs() << (failed ? "the plan does not hold: " : "the plan holds: ");
  if (failed)
    outs() << failed << " of " << all << (all == 1 ? " check fails" : " checks fail");
  else
    outs() << (all == 1 ? "the only check" : "all " + std::to_string(all) + " checks") << " pass";
  std::vector<std::string> unchecked;
  for (const Unchecked &each : report.unchecked)
    unchecked.push_back(each.name);
  if (!unchecked.empty())
    outs() << "; not checked (" << unchecked.size() << "): " << join(unchecked, ", ");
  outs() << '\n';
  printOptimality(report);
}

void writeFinding(JsonWriter &json, const Finding &finding) {
  json.object([&] {
    json.attribute("name", finding.check.name);
    json.attribute("holds", finding.check.holds);
    json.attribute("slack", finding.check.slack);
    json.attribute("unit", finding.check.unit);
    if (!finding.because.empty())
      json.attribute("because", finding.because);
  });
}

void printJson(const Report &report) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("holds", report.holds());
    json.attributeArray("checks", [&] {
      for (const Finding &finding : report.findings)
        writeFinding(json, finding);
    });
    if (const std::optional<Optimality> &optimality = report.optimality)
      json.attributeObject("optimality", [&] {
        json.attribute("verifiedGap", optimality->verified.gap);
        json.attribute("verifiedBound", optimality->verified.bound);
        json.attribute("claimedGap", optimality->claimedGap);
        json.attribute("ofWholeLayers", optimality->isOfWholeLayers);
      });
    json.attributeArray("notChecked", [&] {
      for (const Unchecked &each : report.unchecked)
        json.object([&] {
          json.attribute("name", each.name);
          json.attribute("because", each.why);
          json.attributeArray("fields", [&] {
            for (const char *field : each.fields)
              json.value(field);
          });
        });
    });
  });
}

/// The plan of one model against another: nothing else that is wrong would tell more.
std::optional<Report> foreignModel(const Plan &plan, const LayerGraph &graph,
                                   const VerifyOptions &options) {
  if (plan.modelFingerprint == graph.fingerprint || plan.model == graph.model)
    return std::nullopt;
  Report report;
  report.add("fingerprints", {"the plan is for the model '" + plan.model + "', and " +
                              options.model + " is the model '" + graph.model + "'"});
  report.unchecked.push_back({"all others", "they are about the model of the plan"});
  return report;
}

/// The claims that nobody checks yet.
void addClaims(const Plan &plan, Report &report) {
  report.unchecked.push_back(
      {"search",
       "the plan names its strategy, its seed, whether it was interrupted, and what was left out",
       {"strategy", "seed", "interrupted", "degreesCompared", "searchSpace", "searchSpaceLimits"}});
  if (plan.training)
    report.unchecked.push_back({"training", "the user stated it", {"training"}});
  if (plan.rounding)
    report.unchecked.push_back(
        {"rounding", "the search states the value of continuous sizes", {"rounding"}});
  if (!plan.alternatives.empty())
    report.unchecked.push_back(
        {"alternatives", "the plan of the other kind is not kept", {"alternatives"}});
}

/// Works the bound out from the certificate in `directory`. A smaller gap that the search claims
/// stays a claim.
void addOptimality(const PlanInputs &inputs, const std::string &directory, Report &report) {
  const Plan &plan = inputs.plan;
  auto notChecked = [&](const std::string &why) {
    report.unchecked.push_back({"optimality", why, {"lowerBound", "gap", "optimal"}});
  };
  if (!report.holds())
    return notChecked("the plan itself or its files fail");
  OptimalityBound bound(plan, inputs.graph, inputs.costs.cluster, *inputs.costs.model);
  if (!bound.obstacle().empty())
    return notChecked(bound.obstacle());
  const std::string path = directory + "/" + certificateName;
  if (!sys::fs::exists(path))
    return notChecked("there is no " + std::string(certificateName) + " beside the plan");
  Expected<Certificate> certificate = readCertificate(path);
  if (!certificate)
    return notChecked(toText(certificate.takeError()));
  report.optimality = Optimality{bound.verify(*certificate), plan.gap, plan.comparesDegrees};
  if (plan.comparesDegrees)
    notChecked("plans with layers that several devices share have no certificate");
  else if (report.optimality->verified.gap > plan.gap + 1e-9)
    notChecked("the search claims a smaller gap than the certificate proves");
}

/// Checks the files that were written with the plan in `directory`.
Error addDirectory(const PlanInputs &inputs, const std::string &directory, Report &report) {
  Expected<std::vector<std::string>> wrong = mismatches(directory);
  report.add("files", wrong ? *wrong : std::vector<std::string>{toText(wrong.takeError())});
  if (!report.holds()) {
    report.unchecked.push_back({"instructions", "the plan itself or its files fail"});
    return Error::success();
  }
  Expected<Program> program = lower(inputs.plan, inputs.graph, inputs.costs.cluster);
  if (!program)
    return program.takeError();
  *program = withShardRanks(std::move(*program), inputs.costs.cluster);
  std::vector<std::string> changed = changedInstructions(directory, *program);
  std::string writer = writerOf(directory), here = "heterplan " HETERPLAN_VERSION;
  if (!changed.empty() && writer != here)
    changed.front() += " (it was written by " + writer + ", this is " + here + ")";
  report.add("instructions", changed);
  if (!inputs.operators || !sys::fs::exists(directory + "/model.py"))
    return Error::success();
  Expected<std::vector<std::string>> model =
      inputs.divided ? changedModel(directory, *inputs.operators, *inputs.divided,
                                    withShardDevices(inputs.plan, inputs.costs.cluster))
                     : changedModel(directory, *inputs.operators, inputs.graph, inputs.plan);
  if (!model)
    return model.takeError();
  report.add("model-code", *model);
  return Error::success();
}

/// The figures of a copy of the background job that differ from those of its own plan, `copy`.
std::vector<std::string> copyMismatches(const BackgroundJob &job, const Plan &copy) {
  constexpr double agreement = 1e-6;
  std::vector<std::string> wrong;
  auto equal = [&](const char *what, double stated, double found) {
    if (std::abs(stated - found) > agreement * found)
      wrong.push_back(std::string("the ") + what + " of a copy is stated as " + plain(stated) +
                      ", and its own plan says " + plain(found));
  };
  Bytes memory{};
  for (const auto &[device, bytes] : memoryByDevice(copy))
    memory = std::max(memory, bytes);
  equal("memory", job.memory.value(), memory.value());
  equal("iteration", job.iteration.value(), copy.iteration.value());
  equal("batch", double(job.batch.value()), double(copy.globalBatch.value()));
  if (job.modelFingerprint != copy.modelFingerprint)
    wrong.push_back("a copy is of another model than its own plan");
  return wrong;
}

/// The plan of a copy of the background job, by its model.
Error addBackground(const Plan &plan, const VerifyOptions &options, Report &report) {
  if (!plan.background || plan.background->copies.empty())
    return Error::success();
  report.unchecked.push_back({"background-prediction", "the simulator states the slow-down and "
                                                       "the rates of the copies"});
  if (options.background.empty()) {
    report.unchecked.push_back({"background-copy", "give the model of the copies with "
                                                   "--background"});
    return Error::success();
  }
  std::string directory = planDirectory(options.plan) + "/background";
  Expected<PlanInputs> copy =
      readPlanInputs(directory, options.background, options.reading, options.costs);
  if (!copy)
    return copy.takeError();
  std::vector<std::string> wrong = copyMismatches(*plan.background, copy->plan);
  Expected<std::vector<Finding>> findings =
      examinePlan(copy->plan, copy->graph, copy->costs.cluster, *copy->costs.model);
  if (!findings)
    return findings.takeError();
  for (const Finding &finding : *findings)
    if (!finding.check.holds)
      wrong.push_back("the plan of a copy fails its check '" + finding.check.name +
                      "': " + finding.because);
  report.add("background-copy", wrong);
  return Error::success();
}

Expected<Report> examine(const PlanInputs &inputs, const VerifyOptions &options) {
  if (std::optional<Report> foreign = foreignModel(inputs.plan, inputs.graph, options))
    return std::move(*foreign);
  Expected<std::vector<Finding>> findings =
      examinePlan(inputs.plan, inputs.graph, inputs.costs.cluster, *inputs.costs.model);
  if (!findings)
    return findings.takeError();
  Report report{std::move(*findings), {}};
  std::vector<StringRef> names;
  for (const StrategyInfo &strategy : strategies())
    names.push_back(strategy.name);
  std::vector<std::string> profiles = inputs.costs.measured->fingerprints();
  Expected<Finding> statements =
      checkStatements({inputs.plan, inputs.graph, inputs.costs.cluster, *inputs.costs.model,
                       report.findings, names, profiles});
  if (!statements)
    return statements.takeError();
  report.findings.push_back(std::move(*statements));
  std::string directory = planDirectory(options.plan);
  if (sys::fs::is_directory(options.plan) || sys::fs::exists(directory + "/" + manifestName)) {
    if (Error error = addDirectory(inputs, directory, report))
      return error;
  } else {
    report.unchecked.push_back({"files", "there is no " + std::string(manifestName) +
                                             " beside the plan; give the directory"});
  }
  if (Error error = addBackground(inputs.plan, options, report))
    return error;
  addOptimality(inputs, directory, report);
  addClaims(inputs.plan, report);
  return report;
}

/// The layers of `shard`, as `planned`, which are of one degree or of several, has them.
LayerGraph layersOf(const ModelShard &shard, const LayerGraph &planned) {
  return planned.degrees().size() > 1 ? planned.ofDegree(shard.local.degree) : planned;
}

/// The check of the groups of devices that share every layer; nothing if there are none.
Expected<std::optional<Finding>> examineShards(const VerifyOptions &options) {
  Expected<Plan> plan = readPlanAt(options.plan);
  if (!plan)
    return plan.takeError();
  if (shardDegreeOf(*plan) == 1)
    return std::nullopt;
  Expected<Cluster> cluster = readWholeCluster(options.costs.cluster);
  if (!cluster)
    return cluster.takeError();
  return checkShardGroups(*plan, *cluster);
}

Expected<Report> examine(const VerifyOptions &options) {
  Expected<std::optional<Finding>> shards = examineShards(options);
  if (!shards)
    return shards.takeError();
  if (*shards && !(*shards)->check.holds) {
    Report report{{**shards}, {}};
    report.unchecked.push_back({"all others", "they are about groups of devices"});
    return report;
  }
  Expected<PlanInputs> inputs =
      readPlanInputs(options.plan, options.model, options.reading, options.costs);
  if (!inputs)
    return inputs.takeError();
  Expected<Report> report = examine(*inputs, options);
  if (report && *shards)
    report->findings.push_back(**shards);
  if (report && inputs->divided)
    for (const ModelShard &shard : inputs->divided->shards)
      report->findings.push_back(
          checkShardSlices(*inputs->operators, shard.local, layersOf(shard, inputs->graph)));
  return report;
}

Expected<ExitStatus> verify(const VerifyOptions &options) {
  Expected<Report> report = examine(options);
  if (!report)
    return report.takeError();
  if (options.json) {
    printJson(*report);
  } else {
    (options.verbose ? printEveryCheck : printFailures)(*report);
    printSummary(*report);
  }
  return report->holds() ? exitDone : exitInfeasible;
}

} // namespace

void heterplan::addVerify(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("verify", "check every constraint of a plan, with slack");
  auto options = std::make_shared<VerifyOptions>();
  addArgument(*command, "PLAN", options->plan, "plan.json or the directory that holds it");
  beginGroup(*command, "Input");
  addText(*command, "--model", options->model, "FILE", "the model that was compiled")->required();
  addText(*command, "--background", options->background, "FILE",
          "the model of the background job, if the plan has one");
  addCostOptions(*command, options->costs);
  addReadingOptions(*command, options->reading);
  beginGroup(*command, "Output");
  command->add_flag("--verbose", options->verbose, "print every check with its slack");
  command->add_flag("--json", options->json, "print the checks as JSON");
  command->callback([options, &action] { action = [options] { return verify(*options); }; });
}
