// How rank files state groups of ranks: in ranges, or as lists before version 1.1.
#include "Diagnosed.h"
#include "SmallPlan.h"
#include "ir/FileForms.h"

#include <gtest/gtest.h>

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// Rank 0 of so many; its last instruction has this group.
Program programWithGroup(const RankGroup &group, int worldSize) {
  Program program = llvm::cantFail(lower(smallPlan(), smallGraph(), smallCluster()));
  program.ranks.resize(worldSize);
  program.ranks[0].instructions.back().group = group;
  return program;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.rfind(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  return text.replace(at, from.size(), to);
}

/// A file of 20 ranks with these fields of the group of an instruction.
std::string fileWith(const std::string &fields) {
  Program program = programWithGroup(RankGroup{7}, 20);
  const char *printed = R"("ranges": [
    {
     "first": 7,
     "count": 1,
     "stride": 1
    }
   ])";
  return replaced(toJson(program, 0), printed, fields);
}

struct Defect {
  const char *fields;
  Diag code;
  const char *element; // behind the instruction
};
class GroupDefect : public testing::TestWithParam<Defect> {};
} // namespace

TEST(RankFile, GroupsReadBack) {
  std::vector<int> pairs;
  for (int node = 0; node < 1000; ++node)
    pairs.insert(pairs.end(), {8 * node, 8 * node + 1});
  for (const RankGroup &group : {RankGroup{0}, RankGroup{0, 1, 2}, RankGroup{1, 3, 5, 6, 7, 19},
                                 RankGroup{0, 5, 6, 8}, RankGroup(pairs)}) {
    Program program = programWithGroup(group, 8000);
    auto file = parseRankFile(toJson(program, 0), "0000.json");
    ASSERT_TRUE(bool(file)) << toText(file.takeError());
    EXPECT_EQ(file->program.ranks[0], program.ranks[0]);
  }
}

TEST(RankFile, SizeDoesNotGrowWithTheGroup) {
  RankGroup few, many;
  few.add(RankRange{0, 1000, 1});
  many.add(RankRange{0, 9000, 1});
  EXPECT_EQ(toJson(programWithGroup(few, 9000), 0).size(),
            toJson(programWithGroup(many, 9000), 0).size());
}

TEST(RankFile, ListsAndRangesOfOneGroupAreEqual) {
  for (
      const char *fields :
      {R"("group": [0, 1, 2, 3, 5, 7, 9])",
       R"("ranges": [{"first": 0, "count": 4, "stride": 1}, {"first": 5, "count": 3, "stride": 2}])",
       R"("ranges": [{"count": 1, "stride": 9}, {"first": 1, "count": 3, "stride": 1},
                      {"first": 5, "count": 2, "stride": 2}, {"first": 9, "count": 1, "stride": 3}])"}) {
    auto file = parseRankFile(fileWith(fields), "x");
    ASSERT_TRUE(bool(file)) << toText(file.takeError());
    EXPECT_EQ(file->program.ranks[0].instructions.back().group, (RankGroup{0, 1, 2, 3, 5, 7, 9}));
  }
}

TEST_P(GroupDefect, IsDiagnosedAtItsPlace) {
  size_t last = programWithGroup({}, 20).ranks[0].instructions.size() - 1;
  DiagnosticError error = diagnosed(parseRankFile(fileWith(GetParam().fields), "x"));
  EXPECT_EQ(error.code, GetParam().code) << error.message;
  EXPECT_EQ(error.location.element,
            "instructions[" + std::to_string(last) + "]" + GetParam().element);
  EXPECT_GT(error.location.line, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    RankFile, GroupDefect,
    testing::Values(
        Defect{R"("ranges": [{"first": 1, "count": 20, "stride": 1}])", Diag::InvalidProgram,
               ".ranges[0]"},
        Defect{R"("ranges": [{"first": 0, "count": 2147483647, "stride": 1}])",
               Diag::InvalidProgram, ".ranges[0]"},
        Defect{R"("ranges": [{"first": 2147483647, "count": 2147483647, "stride": 2147483647}])",
               Diag::InvalidProgram, ".ranges[0]"},
        Defect{R"("ranges": [{"first": 0, "count": 0, "stride": 1}])", Diag::InvalidProgram,
               ".ranges[0]"},
        Defect{R"("ranges": [{"first": 0, "count": 2, "stride": 0}])", Diag::InvalidProgram,
               ".ranges[0]"},
        Defect{R"("ranges": [{"first": 0, "count": 4, "stride": 1},
                             {"first": 3, "count": 2, "stride": 1}])",
               Diag::InvalidProgram, ".ranges[1]"},
        Defect{R"("ranges": [{"first": 0, "count": 3, "stride": 4},
                             {"first": 1, "count": 1, "stride": 1}])",
               Diag::InvalidProgram, ".ranges[1]"},
        Defect{R"("ranges": [{"first": 5, "count": 1, "stride": 1},
                             {"first": 5, "count": 1, "stride": 1}])",
               Diag::InvalidProgram, ".ranges[1]"},
        Defect{R"("group": [0, 0])", Diag::InvalidProgram, ".group[1]"},
        Defect{R"("group": [3, 1])", Diag::InvalidProgram, ".group[1]"},
        Defect{R"("group": [20])", Diag::InvalidProgram, ".group[0]"},
        Defect{R"("group": [-2147483648, 2147483647])", Diag::InvalidProgram, ".group[0]"},
        Defect{R"("group": [0], "ranges": [{"first": 0, "count": 1, "stride": 1}])",
               Diag::InvalidProgram, ""},
        Defect{R"("ranges": [{"first": -1, "count": 1, "stride": 1}])", Diag::OutOfRange,
               ".ranges[0].first"},
        Defect{R"("ranges": [{"first": 0, "count": -1, "stride": 1}])", Diag::OutOfRange,
               ".ranges[0].count"},
        Defect{R"("ranges": [{"first": 0, "count": 3000000000, "stride": 1}])", Diag::WrongType,
               ".ranges[0].count"},
        Defect{R"("ranges": [{"first": 0, "stride": 1}])", Diag::MissingField, ".ranges[0]"},
        Defect{R"("ranges": [{"first": 0, "count": 1}])", Diag::MissingField, ".ranges[0]"}));
