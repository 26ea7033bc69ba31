#include "support/DirectoryExchange.h"

#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

using namespace heterplan;
namespace fs = llvm::sys::fs;

namespace {
class DirectoryExchangeTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("exchange", folder));
    target = (folder + "/out").str();
  }
  void TearDown() override { fs::remove_directories(folder); }

  /// Writes `text` into the new directory; old files called "mine" are kept, and "refused"
  /// ones refused.
  std::string save(const std::string &text) {
    auto exchange = DirectoryExchange::begin(target, observer);
    if (!exchange)
      return toText(exchange.takeError());
    llvm::cantFail(writeFile(exchange->path().str() + "/ours", text));
    llvm::Error error = exchange->commit([](llvm::StringRef, llvm::StringRef path) {
      return path.endswith("mine")      ? Entry::Kept
             : path.endswith("refused") ? Entry::Refused
                                        : Entry::Replaced;
    });
    return error ? toText(std::move(error)) : "";
  }
  std::string read(const std::string &name) {
    return llvm::cantFail(readFile(target + "/" + name));
  }
  int entries() {
    int count = 0;
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure), end; entry != end; entry.increment(failure))
      ++count;
    return count;
  }
  static std::string toText(llvm::Error error) { return heterplan::toText(std::move(error)); }

  ExchangeObserver observer;
  llvm::SmallString<128> folder;
  std::string target;
};
} // namespace

TEST_F(DirectoryExchangeTest, ReplacesBelowPathsWithPercentSigns) {
  ASSERT_FALSE(fs::create_directories(folder + "/50%/"));
  target = (folder + "/50%/out%s").str();
  EXPECT_EQ(save("1"), "");
  EXPECT_EQ(save("2"), "");
  EXPECT_EQ(read("ours"), "2");
}

TEST_F(DirectoryExchangeTest, ReplacesAndKeeps) {
  EXPECT_EQ(save("1"), "");
  ASSERT_FALSE(fs::create_directories(target + "/deep/er"));
  llvm::cantFail(writeFile(target + "/deep/er/mine", "kept"));
  llvm::cantFail(writeFile(target + "/gone", "gone"));
  ASSERT_EQ(chmod(target.c_str(), 0750), 0);
  EXPECT_EQ(save("2"), "");
  EXPECT_EQ(read("ours"), "2");
  EXPECT_EQ(read("deep/er/mine"), "kept");
  EXPECT_FALSE(fs::exists(target + "/gone"));
  EXPECT_EQ(entries(), 1);
  struct stat status;
  ASSERT_EQ(stat(target.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0750u);
}

TEST_F(DirectoryExchangeTest, ManyFilesAreBroughtToTheDiskTogether) {
  EXPECT_EQ(save("1"), "");
  for (int i = 0; i < 300; ++i)
    llvm::cantFail(writeFile(target + "/" + std::to_string(i) + "-mine", std::to_string(i)));
  EXPECT_EQ(save("2"), "");
  EXPECT_EQ(read("ours"), "2");
  EXPECT_EQ(read("299-mine"), "299");
  EXPECT_EQ(entries(), 1);
}

TEST_F(DirectoryExchangeTest, WhatIsRefusedChangesNothing) {
  EXPECT_EQ(save("1"), "");
  llvm::cantFail(writeFile(target + "/refused", "mine"));
  EXPECT_NE(save("2").find("[HP1702]"), std::string::npos);
  EXPECT_EQ(read("ours"), "1");
  EXPECT_EQ(entries(), 1);
}

TEST_F(DirectoryExchangeTest, RemovesWhatKilledWritersLeftAndNothingElse) {
  ASSERT_FALSE(fs::create_directories(target + ".heterplan-tmp-0a1b2c"));
  ASSERT_FALSE(fs::create_directories(target + ".heterplan-tmp-mine-0a1b2c"));
  auto living = DirectoryExchange::begin(target, observer);
  ASSERT_TRUE(bool(living));
  EXPECT_EQ(entries(), 2) << "the abandoned one is gone";
  EXPECT_EQ(save("1"), "");
  EXPECT_TRUE(fs::exists(living->path())) << "its writer lives";
}

TEST_F(DirectoryExchangeTest, PutsTheOldDirectoryBackAfterAKillBetweenTwoRenames) {
  std::string old = target + ".heterplan-old-0a1b2c";
  ASSERT_FALSE(fs::create_directories(old));
  llvm::cantFail(writeFile(old + "/mine", "kept"));
  EXPECT_EQ(save("1"), "");
  EXPECT_EQ(read("mine"), "kept");
  EXPECT_EQ(entries(), 1);
}
