#include "ir/Cluster.h"
#include "support/Files.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
constexpr const char *mixed = R"(name: mixed
device_types:
  v100: {kind: gpu, memory: 16GiB, price_per_hour: 2.42, catalogue: v100-sxm2-16gb}
  own:  {kind: cpu, memory: 64GB, fp32: 1.5TFLOP/s, bandwidth: 100GB/s}
nodes:
  - {name: gpu, count: 4, devices: {v100: 8}, link: nvlink2}
  - name: cpu
    devices: {own: 2}
    link: {bandwidth: 16GB/s, latency: 2.5us}
    zone: east
network: {bandwidth: 100Gbit/s, latency: 5us}
zones:
  - {name: east, price_per_gb: 0}
)";

std::string problemOf(llvm::StringRef text) {
  auto cluster = parseCluster(text, "c.yaml");
  return cluster ? "" : toText(cluster.takeError());
}

/// `mixed` with the first `from` replaced.
std::string with(const std::string &from, const std::string &to) {
  std::string text = mixed;
  size_t position = text.find(from);
  EXPECT_NE(position, std::string::npos) << from;
  return text.replace(position, from.size(), to);
}

void expectProblem(llvm::StringRef text, const std::string &start, const std::string &part) {
  std::string problem = problemOf(text);
  EXPECT_EQ(problem.substr(0, start.size()), start) << problem;
  EXPECT_NE(problem.find(part), std::string::npos) << problem;
}

TEST(ClusterReader, ReadsLinksBetweenPlaces) {
  std::string text = std::string(mixed) + R"(links:
  - {between: [east, gpu], network: {bandwidth: 5GB/s, latency: 40ms}}
  - {between: [v100, v100], network: infiniband-hdr}
)";
  auto cluster = parseCluster(text, "c.yaml");
  ASSERT_TRUE(bool(cluster)) << toText(cluster.takeError());
  ASSERT_EQ(cluster->links.size(), 2u);
  const PlaceLink &first = cluster->links[0];
  EXPECT_EQ(first.from + " " + first.to, "east gpu");
  EXPECT_EQ(first.network.bandwidth, BytesPerSecond(5e9));
  EXPECT_EQ(first.network.latency, Seconds(0.04));
  EXPECT_EQ(cluster->links[1].network.name, "infiniband-hdr");
  EXPECT_EQ(linksOf(*cluster).size(), 6u);

  auto changed = [&](const std::string &from, const std::string &to) {
    std::string other = text;
    return other.replace(other.find(from), from.size(), to);
  };
  expectProblem(changed("[east, gpu]", "[east, gpus]"), "c.yaml:15:15: error: [HP1215]",
                "no zone, node or device type is called 'gpus'; did you mean 'gpu'?");
  expectProblem(changed("[east, gpu]", "[east]"), "c.yaml:15:15: error: [HP1007]",
                "between must be a list of two names");
  expectProblem(changed(", network: infiniband-hdr", ""), "c.yaml:16:5: error: [HP1004]",
                "a link lacks 'network'");
  expectProblem(changed("5GB/s", "0GB/s"), "c.yaml:15:49: error: [HP1216]",
                "bandwidth '0GB/s' of the network of a link is out of range");
}

TEST(ClusterReader, ReadsEveryField) {
  auto cluster = parseCluster(mixed, "c.yaml");
  ASSERT_TRUE(bool(cluster)) << toText(cluster.takeError());
  EXPECT_EQ(cluster->name, "mixed");
  EXPECT_EQ(cluster->fingerprint, sha256(mixed));
  ASSERT_EQ(cluster->types.size(), 2u);
  const DeviceType &v100 = cluster->types[0], &own = cluster->types[1];
  EXPECT_EQ(v100.deviceClass, DeviceClass::Gpu);
  EXPECT_EQ(v100.memory, Bytes(16.0 * 1024 * 1024 * 1024));
  EXPECT_EQ(v100.price, DollarsPerHour(2.42));
  EXPECT_EQ(v100.catalogue, "v100-sxm2-16gb");
  EXPECT_FALSE(v100.rates);
  EXPECT_EQ(own.deviceClass, DeviceClass::Cpu);
  EXPECT_EQ(own.memory, Bytes(64e9));
  ASSERT_TRUE(own.rates);
  EXPECT_EQ(own.rates->fp32, FlopsPerSecond(1.5e12));
  EXPECT_EQ(own.rates->memory, BytesPerSecond(100e9));
  EXPECT_EQ(cluster->deviceCount(0), 32);
  ASSERT_EQ(cluster->nodes.size(), 2u);
  EXPECT_EQ(cluster->nodes[0].linkName, "nvlink2");
  EXPECT_EQ(cluster->nodes[1].count, 1);
  EXPECT_EQ(cluster->nodes[1].linkName, "");
  EXPECT_EQ(cluster->nodes[1].link.bandwidth, BytesPerSecond(16e9));
  EXPECT_DOUBLE_EQ(cluster->nodes[1].link.latency.value(), 2.5e-6);
  EXPECT_EQ(cluster->nodes[1].zone, "east");
  EXPECT_EQ(cluster->network.bandwidth, BytesPerSecond(12.5e9));
  ASSERT_EQ(cluster->zones.size(), 1u);
  EXPECT_EQ(cluster->zones[0].network.bandwidth, BytesPerSecond(12.5e9)); // the cluster's
}

TEST(ClusterReader, LeavesOutWhatHasADefault) {
  auto cluster = parseCluster("device_types: {g: {catalogue: t4}}\n"
                              "nodes: [{name: n, devices: {g: 1}}]\n",
                              "some/where.yaml");
  ASSERT_TRUE(bool(cluster)) << toText(cluster.takeError());
  EXPECT_EQ(cluster->name, "where");
  EXPECT_EQ(cluster->nodes[0].linkName, "pcie3");
  EXPECT_FALSE(cluster->types[0].statesPrice);
  EXPECT_FALSE(cluster->types[0].statesKind);
}

TEST(ClusterReader, PointsAtAWrongQuantity) {
  EXPECT_EQ(problemOf(with("16GiB", "16GX")),
            "c.yaml:3:29: error: [HP1212] memory '16GX' of device type 'v100' is not a size; write "
            "e.g. 16GiB");
  expectProblem(with("64GB", "-1GB"), "c.yaml:4:29: error: [HP1212]", "size");
  expectProblem(with("64GB", "0x10GB"), "c.yaml:4:29: error: [HP1212]", "size");
  expectProblem(with("64GB", "infGB"), "c.yaml:4:29: error: [HP1212]", "size");
  expectProblem(with("64GB", "1e300GB"), "c.yaml:4:29: error: [HP1216]", "out of range");
  expectProblem(with("64GB", "0GB"), "c.yaml:4:29: error: [HP1216]", "out of range");
  expectProblem(with("64GB", "[64GB]"), "c.yaml:4:29: error: [HP1007]", "size");
  expectProblem(with("1.5TFLOP/s", "1.5TFLOPS"), "c.yaml:4:41: error: [HP1212]", "15.7TFLOP/s");
  expectProblem(with("100GB/s", "100GB"), "c.yaml:4:64: error: [HP1212]", "bandwidth");
  expectProblem(with("2.5us", "2.5"), "c.yaml:9:40: error: [HP1212]", "5us");
  expectProblem(with("2.42", "free"), "c.yaml:3:52: error: [HP1007]", "2.42");
  expectProblem(with("2.42", "1e9"), "c.yaml:3:52: error: [HP1216]", "at most");
  expectProblem(with("2.42", "-1"), "c.yaml:3:52: error: [HP1007]", "not negative");
}

TEST(ClusterReader, PointsAtWrongNamesAndTypes) {
  expectProblem(with("kind: gpu", "kind: tpu"), "c.yaml:3:16: error: [HP1007]", "cpu, gpu");
  expectProblem(with("count: 4", "count: 4.5"), "c.yaml:6:24: error: [HP1007]", "whole number");
  expectProblem(with("count: 4", "count: 0"), "c.yaml:6:24: error: [HP1216]", "1 to 1000000");
  expectProblem(with("count: 4", "count: 99999999999999999999"), "c.yaml:6:24: error: [HP1007]",
                "");
  expectProblem(with("count: 4", "cuont: 4"), "c.yaml:6:17: error: [HP1005]", "accepted are name");
  expectProblem(with("{v100: 8}", "{v101: 8}"), "c.yaml:6:37: error: [HP1213]", "v100, own");
  expectProblem(with("{v100: 8}", "[v100]"), "c.yaml:6:36: error: [HP1007]", "mapping");
  expectProblem(with("zone: east", "zone: west"), "c.yaml:10:11: error: [HP1215]", "west");
  expectProblem(with("link: nvlink2", "link: [1]"), "c.yaml:6:53: error: [HP1007]", "link");
  expectProblem(with(", latency: 5us", ""), "c.yaml:11:10: error: [HP1004]", "latency");
  expectProblem(with("name: gpu, ", ""), "c.yaml:6:5: error: [HP1004]", "'name'");
  expectProblem(with("kind: cpu, ", ""), "c.yaml:4:9: error: [HP1004]", "'kind'");
  expectProblem(with("memory: 64GB, ", ""), "c.yaml:4:9: error: [HP1004]", "'memory'");
  expectProblem(with("fp32: 1.5TFLOP/s, ", ""), "c.yaml:4:9: error: [HP1004]", "'fp32'");
  expectProblem(with("name: cpu", "name: gpu"), "c.yaml:7:5: error: [HP1103]", "'gpu'");
  expectProblem(with("  own:", "  v100:"), "c.yaml:4:3: error: [HP1103]", "twice");
  expectProblem(with("network: {bandwidth: 100Gbit/s, latency: 5us}\n", ""), "c.yaml:1:1",
                "network");
  expectProblem("device_types: 5\nnodes: []\n", "c.yaml:1:15: error: [HP1007]", "");
  expectProblem("device_types: {}\nnodes: []\n", "c.yaml:1:1: error: [HP1004]", "no device types");
  expectProblem("nodes: []\n", "c.yaml:1:1: error: [HP1004]", "device_types");
}

TEST(ClusterReader, RefusesWhatIsNotOneYamlMapping) {
  expectProblem("", "c.yaml:1:1: error: [HP1003]", "empty");
  expectProblem("# nothing\n", "c.yaml:1:1: error: [HP1003]", "empty");
  expectProblem("- 1\n- 2\n", "c.yaml:1:1: error: [HP1007]", "mapping");
  expectProblem("just text", "c.yaml:1:1: error: [HP1007]", "mapping");
  expectProblem(std::string(mixed) + "---\n" + mixed, "c.yaml:1:1: error: [HP1003]", "documents");
  expectProblem("name: {a: 1", "c.yaml:", "[HP1003]");
  expectProblem("name: \"abc", "c.yaml:", "[HP1003]");
  expectProblem("a: b: c: d\n", "c.yaml:", "[HP1003]");
  expectProblem(std::string("a: \0b", 5), "c.yaml:1:1: error: [HP1003]", "zero byte");
  expectProblem("{[1]: 2}", "c.yaml:1:2: error: [HP1003]", "key");
}

TEST(ClusterReader, ReadsWhatZonesCharge) {
  auto cluster = parseCluster(with("price_per_gb: 0", "price_per_gb: 0.02"), "c.yaml");
  ASSERT_TRUE(bool(cluster)) << toText(cluster.takeError());
  EXPECT_EQ(cluster->zones[0].pricePerGb, Dollars(0.02));
  expectProblem(with("price_per_gb: 0", "price_per_gb: much"), "c.yaml:13:32: error: [HP1007]",
                "price_per_gb");
}

TEST(ClusterReader, RefusesWhatWouldGrow) {
  expectProblem("a: &x [1]\nb: [*x, *x]\n", "c.yaml:1:", "anchors");
  expectProblem("a: !!str 1\n", "c.yaml:1:", "tags");
  expectProblem("name: " + std::string(100000, '['), "c.yaml:1:", "[HP1003]");
  expectProblem("name: " + std::string(10 << 20, 'x'), "c.yaml: error: [HP1008]", "at most");
  expectProblem("name: " + std::string(10000, 'x'), "c.yaml:1:7: error: [HP1216]", "characters");
}

TEST(ClusterReader, EveryTruncationIsAnswered) {
  std::string text = mixed;
  for (size_t length = 0; length < text.size(); ++length)
    (void)problemOf(llvm::StringRef(text).take_front(length)); // must return
}

TEST(ClusterReader, NamesAnAbsentFile) {
  auto cluster = readCluster("/nonexistent/c.yaml");
  ASSERT_FALSE(bool(cluster));
  EXPECT_NE(toText(cluster.takeError()).find("[HP1001]"), std::string::npos);
}
} // namespace
