#include "codegen/Launcher.h"

#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

using namespace heterplan;

namespace {
Program programOn(std::vector<std::string> nodes, std::vector<std::string> types = {"cpu"}) {
  Program program;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    RankProgram part;
    part.rank = static_cast<int>(rank);
    part.device = {types[rank % types.size()], nodes[rank], 0};
    program.ranks.push_back(part);
  }
  return program;
}

struct Outcome {
  int status;
  std::string output;
};

/// Runs launch.sh with `options`; standard error is part of the output.
Outcome launch(const Program &program, const std::string &options,
               const std::string &variables = "OMP_NUM_THREADS=2") {
  llvm::SmallString<128> folder;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("launch er", folder));
  llvm::cantFail(writeFile((folder + "/launch.sh").str(), emitLaunchScript(program)));
  llvm::cantFail(writeFile((folder + "/manifest.sha256").str(), ""));
  std::string command = "HETERPLAN_PYTHON=python-x " + variables + " bash '" + folder.str().str() +
                        "/launch.sh' " + options + " 2>&1";
  FILE *pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, ""};
  for (int c; pipe && (c = fgetc(pipe)) != EOF;)
    outcome.output += static_cast<char>(c);
  outcome.status = WEXITSTATUS(pclose(pipe));
  llvm::sys::fs::remove_directories(folder);
  return outcome;
}

bool has(const Outcome &outcome, const std::string &part) {
  return outcome.output.find(part) != std::string::npos;
}
} // namespace

TEST(Launcher, RunsAllRanksHere) {
  Outcome outcome = launch(programOn({"a", "a", "b"}), "--dry-run --steps 3 --data 'my mod:f'");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(has(outcome, "OMP_NUM_THREADS=2 python-x -m heterplan_runtime ")) << outcome.output;
  EXPECT_TRUE(has(outcome, " --steps 3 --data my\\ mod:f")) << outcome.output;
}

TEST(Launcher, GivesEachHostTheRanksOfItsNode) {
  Outcome outcome = launch(programOn({"a", "a", "b"}), "--hosts h1,h2 --node-rank 0 --dry-run");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(has(outcome,
                  "HETERPLAN_HOSTS=h1=2\\,h2=1 HETERPLAN_HOST_INDEX=0 HETERPLAN_PORT=29400 "
                  "HETERPLAN_NODE=a OMP_NUM_THREADS=2 "))
      << outcome.output;
  outcome = launch(programOn({"a", "a", "b"}), "--hosts h1,h2 --dry-run");
  EXPECT_TRUE(has(outcome, " -- h2 bash") && has(outcome, " -- h1 bash")) << outcome.output;
  EXPECT_TRUE(has(outcome, "HETERPLAN_CALLER=/")) << "where modules of the user's lie";
}

TEST(Launcher, SpreadsRanksOverOtherHostsAndSaysSo) {
  Outcome outcome =
      launch(programOn({"a", "b", "c"}), "--hosts h1,h2 --port 7 --node-rank 1 --dry-run");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(has(outcome, "note: planned for the nodes a b c")) << outcome.output;
  EXPECT_TRUE(has(outcome, "HETERPLAN_HOSTS=h1=1\\,h2=2 HETERPLAN_HOST_INDEX=1 HETERPLAN_PORT=7 "))
      << outcome.output;
  EXPECT_FALSE(has(outcome, "HETERPLAN_NODE")) << outcome.output;
}

TEST(Launcher, PassesSettingsOfTheNetworkOn) {
  Outcome outcome = launch(programOn({"a", "b"}), "--hosts h1,h2 --dry-run",
                           "GLOO_SOCKET_IFNAME=eth7 NCCL_DEBUG='a b' OTHER=no");
  EXPECT_TRUE(has(outcome, "GLOO_SOCKET_IFNAME=eth7") && has(outcome, "NCCL_DEBUG=a"))
      << outcome.output;
  EXPECT_FALSE(has(outcome, "OTHER=no")) << outcome.output;
}

TEST(Launcher, LeavesTheRanksToSlurm) {
  Outcome outcome =
      launch(programOn({"a", "b"}), "--dry-run", "SLURM_STEP_NUM_TASKS=2 SLURM_CPUS_PER_TASK=3");
  EXPECT_TRUE(has(outcome, "OMP_NUM_THREADS=3 python-x")) << outcome.output;
}

TEST(Launcher, RefusesHostsThatAreNotThePlannedNodes) {
  Program mixed = programOn({"a", "a", "b", "b"}, {"t4", "v100"});
  EXPECT_EQ(launch(mixed, "--hosts h1,h2 --dry-run").status, 0);
  for (std::string hosts : {"h1", "h1,h2,h3"}) {
    Outcome outcome = launch(mixed, "--dry-run --hosts " + hosts);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(has(outcome, "the plan is for 2 nodes with several device types; name one host for "
                             "each, in this order: a b"))
        << outcome.output;
  }
  Outcome outcome = launch(programOn({"a", "b", "a"}), "--dry-run --hosts h1,h2");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome, "the ranks of a node are not consecutive")) << outcome.output;
}

TEST(Launcher, CountsCoresWhateverThreadsARankHas) {
  Outcome outcome = launch(programOn(std::vector<std::string>(9, "n")), "--dry-run",
                           "OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1");
  int cores = int(std::thread::hardware_concurrency());
  if (cores < 2)
    GTEST_SKIP() << "needs two cores";
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Launcher, RefusesWhatCannotBe) {
  Program program = programOn({"a", "b"});
  EXPECT_EQ(launch(program, "--hosts").status, 1);
  EXPECT_EQ(launch(program, "--hosts a,b,c --dry-run").status, 1);
  EXPECT_EQ(launch(program, "--hosts a,b --node-rank 2 --dry-run").status, 1);
  EXPECT_EQ(launch(program, "--hosts a,,b --dry-run").status, 1);
  EXPECT_EQ(launch(program, "--hosts a,b --port 08 --dry-run").status, 1);
  Outcome outcome = launch(programOn(std::vector<std::string>(100'000, "n")), "--dry-run");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome, "the plan has 100000 ranks")) << outcome.output;
}

TEST(Launcher, NumbersAreNotEvaluated) {
  for (std::string option : {"--node-rank", "--port"}) {
    Outcome outcome = launch(programOn({"a", "b"}),
                             "--hosts a,b --dry-run " + option + " 'x[$(echo pwned >&2)]'");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(has(outcome, "is not a number")) << outcome.output;
    EXPECT_FALSE(has(outcome, "pwned\n")) << outcome.output;
  }
}

TEST(Launcher, HostsAreNotOptionsOfSsh) {
  Outcome outcome = launch(programOn({"a", "b"}), "--dry-run --hosts -oProxyCommand=x,me@b");
  EXPECT_TRUE(has(outcome, " -- -oProxyCommand=x ")) << outcome.output;
  outcome = launch(programOn({"a", "b"}), "--dry-run --hosts me@a,b --node-rank 0");
  EXPECT_TRUE(has(outcome, "HETERPLAN_HOSTS=a=1\\,b=1 ")) << outcome.output;
}

TEST(Launcher, NamesOfNodesStayInStrings) {
  Outcome outcome = launch(programOn({"$(echo pwned >&2)'; echo pwned #"}), "--dry-run");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_FALSE(has(outcome, "pwned")) << outcome.output;
}
