// The memory of ranks beyond their tensors, as cluster files state it.
#include "ir/Cluster.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
std::string withOverhead(const std::string &stated) {
  return "device_types:\n  core: {kind: cpu, memory: 4GiB, fp32: 1GFLOP/s, bandwidth: 1GB/s" +
         (stated.empty() ? "" : ", memory_overhead: " + stated) +
         "}\nnodes:\n  - {name: here, devices: {core: 2}, link: {bandwidth: 1GB/s, latency: 0s}}\n";
}

MemoryOverhead overheadOf(const std::string &stated) {
  auto cluster = parseCluster(withOverhead(stated), "c.yaml");
  EXPECT_TRUE(bool(cluster)) << toText(cluster.takeError());
  return cluster ? cluster->types.front().overhead : MemoryOverhead();
}

std::string problemOf(const std::string &stated) {
  auto cluster = parseCluster(withOverhead(stated), "c.yaml");
  return cluster ? "" : toText(cluster.takeError());
}

TEST(MemoryOverhead, NobodyStatesIt) {
  MemoryOverhead none = overheadOf("");
  EXPECT_FALSE(bool(none));
  EXPECT_EQ(none.resident(Bytes(123)), Bytes(123));
  EXPECT_EQ(none.room(Bytes(123)), Bytes(123));
  EXPECT_EQ(none.workspaceCopies(), 1);
  EXPECT_EQ(none.convolutionCopies(), 0);
}

TEST(MemoryOverhead, ASizeIsTheConstant) {
  MemoryOverhead overhead = overheadOf("300MiB");
  EXPECT_TRUE(bool(overhead));
  EXPECT_EQ(overhead.constant, Bytes(300 << 20));
  EXPECT_EQ(overhead.factor, 1);
  EXPECT_EQ(overhead.source, "cluster file");
  EXPECT_EQ(overhead.provenance, Provenance::Assumed);
}

TEST(MemoryOverhead, AllOfIt) {
  MemoryOverhead overhead =
      overheadOf("{constant: 100B, factor: 1.5, under_way: 12, convolutions: 6, "
                 "source: 'measured by us'}");
  EXPECT_EQ(overhead.source, "measured by us");
  EXPECT_EQ(overhead.resident(Bytes(200)), Bytes(400));
  EXPECT_EQ(overhead.room(Bytes(400)), Bytes(200));
  EXPECT_EQ(overhead.room(Bytes(99)), Bytes(0)) << "not even the process fits";
  EXPECT_EQ(overhead.workspaceCopies(), 8);
  EXPECT_EQ(overhead.convolutionCopies(), 4);
}

TEST(MemoryOverhead, ProblemsAreLocated) {
  EXPECT_NE(problemOf("{constant: 1GiB, factor: 0.5}").find("c.yaml:2:"), std::string::npos);
  EXPECT_NE(problemOf("{constant: 1GiB, factor: 0.5}").find("at least 1 is accepted"),
            std::string::npos);
  EXPECT_NE(problemOf("{constant: 1GiB, under_way: 0}").find("at least 1 is accepted"),
            std::string::npos);
  EXPECT_NE(problemOf("{factor: 2}").find("constant"), std::string::npos);
  EXPECT_NE(problemOf("much").find("not a size"), std::string::npos);
}

TEST(MemoryOverhead, HeadroomIsKeptWhereItIsStated) {
  Cluster cluster;
  cluster.types.resize(2);
  EXPECT_EQ(defaultHeadroom(cluster), 0);
  cluster.types[1].overhead = {Bytes(1), 2, 6, "test"};
  EXPECT_EQ(defaultHeadroom(cluster), 0.05);
}
} // namespace
