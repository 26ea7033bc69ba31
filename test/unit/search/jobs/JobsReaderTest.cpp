#include "search/jobs/read/JobsReader.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
const std::string good = R"(slot: 60s
slots: 10
jobs:
  - name: a
    arrival: 0
    epochs: 2
    samples: 50000
    batch: 128
    sample_time: 4ms
    gradient: 100MB
    worker: {gpu: 1, cpu: 4, memory: 16GiB}
    server: {cpu: 2, memory: 8GiB}
    workers_per_server: 4
    utility: {kind: sigmoid, value: 50, decay: 0.3, target: 20}
)";

std::string with(std::string text, const std::string &old, const std::string &now) {
  size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

std::string without(const std::string &key) {
  size_t at = good.find("    " + key + ":");
  EXPECT_NE(at, std::string::npos) << key;
  std::string text = good;
  return text.erase(at, text.find('\n', at) + 1 - at);
}

std::string errorOf(const std::string &text) {
  auto workload = jobs::parseWorkload(text, "jobs.yaml");
  return workload ? "" : toText(workload.takeError());
}

void expectError(const std::string &text, const std::string &place, const std::string &what) {
  std::string error = errorOf(text);
  EXPECT_EQ(error.find("jobs.yaml:" + place), 0u) << error;
  EXPECT_NE(error.find(what), std::string::npos) << error;
}
} // namespace

TEST(JobsReader, readsEveryField) {
  jobs::Workload workload = llvm::cantFail(jobs::parseWorkload(good, "jobs.yaml"));
  EXPECT_EQ(workload.slot, Seconds(60));
  EXPECT_EQ(workload.slots, 10);
  ASSERT_EQ(workload.jobs.size(), 1u);
  const jobs::Job &job = workload.jobs[0];
  EXPECT_EQ(job.name, "a");
  EXPECT_EQ(job.work(), 100000);
  EXPECT_EQ(job.batch, 128);
  EXPECT_EQ(job.sampleTime, Seconds(0.004));
  EXPECT_EQ(job.gradient, Bytes(1e8));
  EXPECT_EQ(job.worker, (jobs::Demand{4000, 16.0 * 1024 * 1024 * 1024, 1}));
  EXPECT_EQ(job.server, (jobs::Demand{2000, 8.0 * 1024 * 1024 * 1024, 0}));
  EXPECT_EQ(job.workersPerServer, 4);
  EXPECT_EQ(job.priority, 0);
  EXPECT_EQ(job.utility, (jobs::Utility{jobs::Utility::Kind::Sigmoid, 50, 0.3, 20, 0}));
}

TEST(JobsReader, everyFieldButThePriorityIsRequired) {
  for (const char *key : {"arrival", "epochs", "samples", "batch", "sample_time", "gradient",
                          "worker", "server", "workers_per_server", "utility"})
    expectError(without(key), "4:", std::string("lacks '") + key + "'");
}

TEST(JobsReader, timesByTypeAndOtherUtilities) {
  std::string text = with(good, "sample_time: 4ms", "sample_time: {old: 4ms, new: 1ms}");
  text = with(text, "{kind: sigmoid, value: 50, decay: 0.3, target: 20}",
              "{kind: linear, value: 30, deadline: 40}");
  jobs::Workload workload = llvm::cantFail(jobs::parseWorkload(text, "jobs.yaml"));
  EXPECT_EQ(workload.jobs[0].sampleTimes.at("new"), Seconds(0.001));
  EXPECT_EQ(workload.jobs[0].utility.kind, jobs::Utility::Kind::Linear);
}

TEST(JobsReader, hostileNumbersAreRefusedWithTheirPlace) {
  expectError(with(good, "samples: 50000", "samples: 99999999999999999999"), "7:14", "[HP1007]");
  expectError(with(good, "samples: 50000", "samples: 0"), "7:14", "[HP1216]");
  expectError(with(good, "samples: 50000", "samples: -5"), "7:14", "[HP1216]");
  expectError(with(good, "samples: 50000", "samples: nan"), "7:14", "[HP1007]");
  expectError(with(good, "slots: 10", "slots: 2000000000"), "2:8", "[HP1216]");
  expectError(with(good, "slots: 10", "slots: 0"), "2:8", "[HP1216]");
  expectError(with(good, "slot: 60s", "slot: 0s"), "1:7", "[HP1216]");
  expectError(with(good, "slot: 60s", "slot: 60"), "1:7", "[HP1212]");
  expectError(with(good, "sample_time: 4ms", "sample_time: inf"), "9:18", "[HP1212]");
  expectError(with(good, "arrival: 0", "arrival: -1"), "5:14", "[HP1216]");
  expectError(with(good, "cpu: 4", "cpu: 1.23456"), "11:27", "thousandths");
  expectError(with(good, "gpu: 1, cpu: 4, ", ""), "11:13", "neither gpu nor cpu");
  expectError(with(good, "workers_per_server: 4", "workers_per_server: 0"), "13:25", "[HP1216]");
  expectError(with(good, "value: 50", "value: nan"), "14:37", "[HP1007]");
  expectError(with(good, "value: 50", "value: 1e300"), "14:37", "[HP1216]");
}

TEST(JobsReader, contradictionsAreRefused) {
  expectError(with(good, "kind: sigmoid", "kind: cubic"), "14:", "cubic");
  expectError(with(good, "decay: 0.3, ", ""), "14:", "lacks 'decay'");
  expectError(with(good, "kind: sigmoid", "kind: constant"), "14:", "has no 'decay'");
  expectError(with(good, "{kind: sigmoid, value: 50, decay: 0.3, target: 20}",
                   "{kind: linear, value: 1, deadline: 0}"),
              "14:", "needs more");
  expectError(with(good, "batch: 128", "batch: 128\n    model: m.onnx"), "9:12",
              "give one of them");
  expectError(with(good, "batch: 128", "batch: 128\n    color: red"), "9:", "[HP1005]");
  expectError(good + good.substr(good.find("  - name")), "15:5", "two jobs are called 'a'");
  expectError("slot: 60s\nslots: 10\njobs: {}\n", "3:7", "must be a list");
  expectError("slot: 60s\nslots: 10\n", "1:1", "lacks 'jobs'");
}

TEST(JobsReader, zeroIsASizeOfGradientsAndMemory) {
  std::string text = with(with(good, "100MB", "0MB"), "16GiB", "0B");
  jobs::Workload workload = llvm::cantFail(jobs::parseWorkload(text, "jobs.yaml"));
  EXPECT_EQ(workload.jobs[0].gradient, Bytes(0));
  EXPECT_EQ(workload.jobs[0].worker[jobs::Memory], 0);
  expectError(with(good, "100MB", "0X"), "10:", "[HP1212]");
}

TEST(JobsReader, oneJobByItself) {
  jobs::Job job = llvm::cantFail(jobs::parseJob(
      "{name: b, arrival: 3, epochs: 1, samples: 5, batch: 2, sample_time: 1s, gradient: 0B, "
      "worker: {cpu: 1}, server: {}, workers_per_server: 1, utility: {kind: constant, value: 1}}",
      "job.yaml"));
  EXPECT_EQ(job.arrival, 3);
  EXPECT_EQ(job.server, (jobs::Demand{0, 0, 0}));
}

TEST(JobsReader, readsAChoiceOfGpus) {
  std::string model =
      with(with(good, "sample_time: 4ms", "model: a.onnx"), "    gradient: 100MB\n", "");
  jobs::Workload workload = llvm::cantFail(
      jobs::parseWorkload(with(model, "gpu: 1, cpu: 4", "gpu: [2, 4], cpu: 3"), "jobs.yaml"));
  const jobs::Job &job = workload.jobs[0];
  ASSERT_EQ(job.choices.size(), 2u);
  constexpr double memory = 16.0 * 1024 * 1024 * 1024; // of each GPU
  EXPECT_EQ(job.choices[0].worker, (jobs::Demand{6000, 2 * memory, 2}));
  EXPECT_EQ(job.choices[1].worker, (jobs::Demand{12000, 4 * memory, 4}));
  EXPECT_EQ(job.worker, job.choices[0].worker);
  expectError(with(good, "gpu: 1", "gpu: [1, 2]"), "4:5: error: [HP1802]", "and no model");
  expectError(with(model, "gpu: 1", "gpu: [1, 1]"), "10:23: error: [HP1103]", "has 1 twice");
  expectError(with(model, "gpu: 1", "gpu: [0]"), "10:20: error: [HP1216]", "gpu of worker");
  expectError(with(model, "gpu: 1", "gpu: []"), "10:19: error: [HP1216]", "0 numbers of GPUs");
  expectError(with(model, "gpu: 1", "gpu: [1, x]"), "10:23: error: [HP1007]", "whole number");
}
