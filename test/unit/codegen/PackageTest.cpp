#include "codegen/Package.h"

#include "GraphBuilder.h"
#include "codegen/Manifest.h"
#include "codegen/Resources.h"
#include "ir/FileForms.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace heterplan;
namespace fs = llvm::sys::fs;

namespace {
class PackageTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("package", folder));
    TensorId x = builder.input("x", batched({2})), w = builder.parameter("w", {2});
    builder.graph.tensors[w].data = values<float>(DataType::Float32, {2}, {1.f, 2.f});
    builder.graph.outputs = {builder.node("y", "Mul", {x, w}, batched({2}))};
    layers = builder.layers();
    plan = builder.plan();
    plan.globalBatch = Samples(4);
    plan.stages[0].replicas = {{Samples(4), {}, {}, {{"cpu", "node", 0}}}};
    program.model = "tiny";
    program.stages = 1;
    program.globalBatch = Samples(4);
    RankProgram rank;
    rank.device = {"cpu", "node", 0};
    rank.parts.emplace_back().samples = {0, 4};
    program.ranks = {rank};
    runtime = path("runtime");
    ASSERT_FALSE(fs::create_directories(runtime + "/__pycache__"));
    write("runtime/__main__.py", "pass");
    write("runtime/junk.txt", "junk");
  }
  void TearDown() override { fs::remove_directories(folder); }

  std::string path(const std::string &name) { return (folder + "/" + name).str(); }
  void write(const std::string &name, llvm::StringRef text) {
    ASSERT_FALSE(bool(writeFile(path(name), text)));
  }
  std::string read(const std::string &name) { return llvm::cantFail(readFile(path(name))); }
  std::string save(bool force = false, bool withGraph = true) {
    ExchangeObserver observer;
    return saveWatched(observer, force, withGraph);
  }
  std::string saveWatched(ExchangeObserver &observer, bool force = false, bool withGraph = true) {
    Package package{plan, layers, program, timeline, withGraph ? &builder.graph : nullptr, runtime};
    llvm::Error error = writePackage(path("a/b/out"), package, force, observer);
    return error ? toText(std::move(error)) : "";
  }
  std::vector<std::string> differences() { return llvm::cantFail(mismatches(path("a/b/out"))); }
  /// Overwrites plan `a` by plan `b` in a process that is killed before each of its steps in turn.
  void killAtEachStep(bool canExchange);
  std::vector<std::string> list(const std::string &name) {
    std::vector<std::string> names;
    std::error_code failure;
    for (fs::directory_iterator entry(path(name), failure), end; entry != end && !failure;
         entry.increment(failure))
      names.push_back(llvm::sys::path::filename(entry->path()).str());
    std::sort(names.begin(), names.end());
    return names;
  }

  llvm::SmallString<128> folder;
  GraphBuilder builder;
  LayerGraph layers;
  Plan plan;
  Program program;
  Timeline timeline;
  std::string runtime;
};

using Names = std::vector<std::string>;
const Names everything = {".heterplan",      "heterplan_runtime", "launch.k8s.yaml",
                          "launch.sbatch",   "launch.sh",         "launch.trainjob.yaml",
                          "manifest.sha256", "model.py",          "plan.json",
                          "ranks",           "report.html",       "weights"};

/// Ends the process before its n-th step.
class KillBefore : public ExchangeObserver {
public:
  KillBefore(int step, bool exchanges) : left(step), exchanges(exchanges) {}
  void before(llvm::StringRef) override {
    if (left-- == 0)
      kill(getpid(), SIGKILL);
  }
  bool canExchange() override { return exchanges; }

private:
  int left;
  bool exchanges;
};

void PackageTest::killAtEachStep(bool canExchange) {
  auto saveAs = [&](const char *name, ExchangeObserver &observer) {
    plan.model = program.model = name;
    return saveWatched(observer);
  };
  ExchangeObserver none;
  int killed = 0;
  for (bool done = false; !done; ++killed) {
    ASSERT_LT(killed, 100);
    ASSERT_EQ(saveAs("a", none), "");
    ASSERT_EQ(list("a/b"), Names{"out"}) << "what the killed writer left is still there";
    ASSERT_FALSE(fs::create_directories(path("a/b/out/weights")));
    write("a/b/out/weights/mine.safetensors", "mine");
    pid_t child = fork();
    if (child == 0) {
      KillBefore observer(killed, canExchange);
      _exit(saveAs("b", observer).empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    done = WIFEXITED(status);
    ASSERT_TRUE(!done || WEXITSTATUS(status) == 0);
    if (!canExchange && !fs::exists(path("a/b/out"))) // between two renames: the next one mends it
      continue;
    std::string found = llvm::cantFail(readPlan(path("a/b/out"))).model;
    EXPECT_EQ(found, done || found == "b" ? "b" : "a");
    EXPECT_EQ(differences(), Names()) << "killed before step " << killed;
    EXPECT_EQ(read("a/b/out/weights/mine.safetensors"), "mine");
  }
  EXPECT_GT(killed, 10);
}
} // namespace

TEST_F(PackageTest, WritesEverything) {
  EXPECT_EQ(save(), "");
  EXPECT_EQ(list("a/b/out"), everything);
  EXPECT_EQ(list("a/b"), Names{"out"});
  EXPECT_EQ(list("a/b/out/heterplan_runtime"), Names{"__main__.py"});
  EXPECT_EQ(list("a/b/out/weights"), Names{"stage-0000.safetensors"});
  EXPECT_EQ(list("a/b/out/ranks"), Names{"0000.json"});
  EXPECT_TRUE(fs::can_execute(path("a/b/out/launch.sh")));
  auto readBack = parsePlan(read("a/b/out/plan.json"), "plan.json");
  ASSERT_TRUE(bool(readBack)) << toText(readBack.takeError());
  EXPECT_EQ(readBack->model, "tiny");
}

TEST_F(PackageTest, WithoutOperatorsNothingIsExecutable) {
  EXPECT_EQ(save(false, false), "");
  EXPECT_EQ(list("a/b/out"),
            (Names{".heterplan", "manifest.sha256", "plan.json", "ranks", "report.html"}));
}

TEST_F(PackageTest, WritesAgainIntoItsOwnDirectory) {
  EXPECT_EQ(save(), "");
  write("a/b/out/notes.txt", "mine");
  write("a/b/out/model.py", "changed");
  EXPECT_EQ(save(false, false), "");
  EXPECT_EQ(list("a/b/out"), (Names{".heterplan", "manifest.sha256", "notes.txt", "plan.json",
                                    "ranks", "report.html"}));
  EXPECT_EQ(list("a/b"), Names{"out"});
}

TEST_F(PackageTest, AnOverwriteThatIsKilledLeavesTheOldOrTheNewPlan) { killAtEachStep(true); }

TEST_F(PackageTest, AlsoWhereDirectoriesCannotBeExchanged) { killAtEachStep(false); }

TEST_F(PackageTest, KeepsWhatItDidNotWrite) {
  EXPECT_EQ(save(), "");
  write("a/b/out/weights/mine.safetensors", "mine");
  ASSERT_FALSE(fs::create_directories(path("a/b/out/checkpoints/empty")));
  ASSERT_EQ(symlink("mine.safetensors", path("a/b/out/weights/link").c_str()), 0);
  EXPECT_EQ(save(), "");
  EXPECT_EQ(read("a/b/out/weights/mine.safetensors"), "mine");
  EXPECT_EQ(read("a/b/out/weights/link"), "mine");
  EXPECT_TRUE(fs::is_directory(path("a/b/out/checkpoints/empty")));
  EXPECT_EQ(differences(), Names());
}

TEST_F(PackageTest, RefusesAFileThatWouldBeTakenForPartOfThePlan) {
  EXPECT_EQ(save(), "");
  write("a/b/out/weights/stage-0007.safetensors", "mine");
  EXPECT_NE(save().find("stage-0007.safetensors: error: [HP1702] was not written by heterplan"),
            std::string::npos);
  EXPECT_NE(save(/*force=*/true), "") << "the new plan has no such file to replace it by";
  EXPECT_EQ(read("a/b/out/weights/stage-0007.safetensors"), "mine");
  EXPECT_EQ(list("a/b"), Names{"out"});
}

TEST_F(PackageTest, ManifestBindsTheFiles) {
  EXPECT_EQ(save(), "");
  EXPECT_EQ(differences(), Names());
  write("a/b/out/notes.txt", "mine");
  EXPECT_EQ(differences(), Names());
  write("a/b/out/ranks/0000.json", read("a/b/out/ranks/0000.json") + " ");
  write("a/b/out/ranks/0001.json", "{}");
  ASSERT_FALSE(fs::remove(path("a/b/out/weights/stage-0000.safetensors")));
  Names found = differences();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NE(found[0].find("'ranks/0000.json' is not the file"), std::string::npos);
  EXPECT_NE(found[1].find("'weights/stage-0000.safetensors' of the manifest cannot be read"),
            std::string::npos);
  EXPECT_NE(found[2].find("'ranks/0001.json' was not written"), std::string::npos);
}

TEST_F(PackageTest, ManifestIsReadBySha256sum) {
  EXPECT_EQ(save(), "");
  std::string command = "cd '" + path("a/b/out") + "' && sha256sum --strict --quiet -c " +
                        manifestName + " >/dev/null 2>&1";
  EXPECT_EQ(system(command.c_str()), 0);
  write("a/b/out/manifest.sha256", "nonsense\n");
  auto broken = readManifest(path("a/b/out"));
  EXPECT_NE(toText(broken.takeError()).find("manifest.sha256:1:1: error: [HP1003]"),
            std::string::npos);
}

TEST_F(PackageTest, ASignalEndsItBetweenTwoFiles) {
  EXPECT_EQ(save(), "");
  std::string before = read("a/b/out/manifest.sha256");
  pid_t child = fork();
  if (child == 0) {
    struct Terminate : ExchangeObserver {
      void before(llvm::StringRef step) override {
        if (step == "write plan.json")
          kill(getpid(), SIGTERM);
      }
    } observer;
    plan.model = "b";
    saveWatched(observer);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  EXPECT_EQ(list("a/b"), Names{"out"});
  EXPECT_EQ(read("a/b/out/manifest.sha256"), before);
}

TEST_F(PackageTest, LeavesAForeignDirectoryAlone) {
  ASSERT_FALSE(fs::create_directories(path("a/b/out")));
  EXPECT_EQ(save(), "");
  ASSERT_FALSE(fs::remove(path("a/b/out/.heterplan")));
  write("a/b/out/model.py", "mine");
  EXPECT_NE(save().find("[HP1702]"), std::string::npos);
  EXPECT_EQ(read("a/b/out/model.py"), "mine");
  EXPECT_EQ(list("a/b"), Names{"out"});
  EXPECT_EQ(save(/*force=*/true), "");
  EXPECT_NE(read("a/b/out/model.py"), "mine");
}

TEST_F(PackageTest, NothingIsLeftAfterAFailure) {
  builder.graph.nodes[0].op = "Nonsense";
  EXPECT_NE(save().find("[HP1701]"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("a")));
  builder.graph.nodes[0].op = "Mul";
  runtime = path("nowhere");
  EXPECT_NE(save().find("[HP1001]"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(PackageTest, FailureLeavesTheOldPlan) {
  EXPECT_EQ(save(), "");
  std::string before = read("a/b/out/model.py");
  builder.graph.nodes[0].op = "Nonsense";
  EXPECT_NE(save(true), "");
  EXPECT_EQ(read("a/b/out/model.py"), before);
  EXPECT_EQ(list("a/b/out"), everything);
  EXPECT_EQ(list("a/b"), Names{"out"});
}

TEST_F(PackageTest, RefusesAFile) {
  ASSERT_FALSE(fs::create_directories(path("a/b")));
  write("a/b/out", "a file");
  EXPECT_NE(save(true).find("[HP1002]"), std::string::npos);
  EXPECT_EQ(read("a/b/out"), "a file");
}

TEST_F(PackageTest, FindsTheRuntimeBesideTheProgram) {
  ASSERT_FALSE(fs::create_directories(path("share/heterplan/runtime/heterplan_runtime")));
  write("share/heterplan/runtime/heterplan_runtime/__main__.py", "");
  auto found = findRuntime(path("bin/heterplan"));
  ASSERT_TRUE(bool(found)) << toText(found.takeError());
  EXPECT_EQ(*found, path("share/heterplan/runtime/heterplan_runtime"));
  auto nowhere = findRuntime(path("x/y/bin/heterplan"));
  EXPECT_NE(toText(nowhere.takeError()).find("tried"), std::string::npos);
}
