#include "support/Files.h"
#include "support/Diagnostic.h"
#include "support/DurableFile.h"
#include "support/TemporaryNames.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

using namespace heterplan;

namespace {

/// A directory that goes away with the test.
struct FilesTest : testing::Test {
  llvm::SmallString<128> directory;

  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("heterplan-files", directory));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(directory); }

  std::string at(llvm::StringRef name) const {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    return path.str().str();
  }
  std::string readError(llvm::StringRef path, uint64_t limit = 100) const {
    llvm::Expected<std::string> text = readFile(path, limit);
    return text ? "read: " + *text : toText(text.takeError());
  }
};

TEST_F(FilesTest, WritesAndReadsBytes) {
  std::string bytes("a\0\r\nb\xff", 6);
  ASSERT_FALSE(static_cast<bool>(writeFile(at("f"), bytes)));
  llvm::Expected<std::string> read = readFile(at("f"));
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(*read, bytes);
}

TEST_F(FilesTest, ReplacesAFileAndLeavesNothingBeside) {
  ASSERT_FALSE(static_cast<bool>(writeFile(at("f"), "a long first content")));
  ASSERT_FALSE(static_cast<bool>(writeFile(at("f"), "second")));
  EXPECT_EQ(readError(at("f")), "read: second");
  int entries = 0;
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator entry(directory, failure), end; entry != end && !failure;
       entry.increment(failure))
    ++entries;
  EXPECT_EQ(entries, 1);
}

TEST_F(FilesTest, WritesBelowPathsWithPercentSigns) {
  std::string folder = at("100%/%s %%%%%%");
  ASSERT_FALSE(llvm::sys::fs::create_directories(folder));
  std::string written = folder + "/a%f", durable = folder + "/%%%%%%";
  EXPECT_EQ(toText(writeFile(written, "first")), "");
  EXPECT_EQ(toText(writeDurably(durable, "second")), "");
  EXPECT_EQ(readError(written), "read: first");
  EXPECT_EQ(readError(durable), "read: second");
}

TEST_F(FilesTest, MakesTemporaryFilesAndFoldersWithDistinctNames) {
  llvm::SmallString<128> a, b, folder;
  int first = -1, second = -1;
  ASSERT_FALSE(createTemporaryFile(at("%x-"), first, a));
  ASSERT_FALSE(createTemporaryFile(at("%x-"), second, b));
  ASSERT_FALSE(createTemporaryFolder(at("%x-"), folder));
  EXPECT_FALSE(llvm::sys::fs::closeFile(first));
  EXPECT_FALSE(llvm::sys::fs::closeFile(second));
  EXPECT_NE(a, b);
  EXPECT_EQ(a.size(), at("%x-").size() + temporarySuffixLength);
  EXPECT_TRUE(llvm::sys::fs::is_directory(folder));
}

TEST_F(FilesTest, ReportsAMissingFile) {
  std::string path = at("absent");
  EXPECT_EQ(readError(path), path + ": error: [HP1001] cannot read: No such file or directory");
}

TEST_F(FilesTest, ReportsADirectory) {
  EXPECT_NE(readError(directory).find("[HP1001] is a directory; give a file"), std::string::npos);
}

TEST_F(FilesTest, RefusesFilesAboveTheLimit) {
  ASSERT_FALSE(static_cast<bool>(writeFile(at("f"), std::string(101, 'x'))));
  EXPECT_EQ(readError(at("f")), at("f") + ": error: [HP1008] has 101 bytes; at most 100 are read");
  ASSERT_FALSE(static_cast<bool>(writeFile(at("f"), std::string(100, 'x'))));
  EXPECT_EQ(readError(at("f")), "read: " + std::string(100, 'x'));
}

TEST_F(FilesTest, DevicesAreNoFiles) {
  EXPECT_NE(readError("/dev/zero").find("[HP1001] is not a regular file"), std::string::npos)
      << "reading it would never end";
}

TEST_F(FilesTest, ReportsWhereItCannotWrite) {
  std::string path = at("no/such/folder/f");
  std::string text = toText(writeFile(path, "x"));
  EXPECT_EQ(text.find(path + ": error: [HP1002] cannot write: "), 0u) << text;
}

TEST_F(FilesTest, ReadsFilesOfTheSystemThatStateNoSize) {
  ASSERT_FALSE(static_cast<bool>(
      writeFile(at("cpuinfo"), "processor : 0\nmodel name\t: A: B\nmodel name : C\n")));
  EXPECT_EQ(systemField(at("cpuinfo"), "model name"), "A: B") << "the first line counts";
  EXPECT_EQ(systemField(at("cpuinfo"), "cpu MHz"), "");
  EXPECT_EQ(systemField(at("none"), "model name"), "");
  EXPECT_FALSE(systemText("/proc/self/status").empty());
  EXPECT_EQ(systemText(at("none")), "");
}

TEST(Sha256, MatchesKnownDigests) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

} // namespace
