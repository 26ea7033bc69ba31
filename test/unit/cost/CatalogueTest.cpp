#include "cost/Catalogue.h"
#include "cost/Roofline.h"
#include "support/Files.h"

#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

#include <cstdlib>

using namespace heterplan;

namespace {
const std::string profiles = HETERPLAN_TEST_DATA "/../../profiles";

Catalogue bundled() {
  auto catalogue = Catalogue::load(profiles);
  EXPECT_TRUE(bool(catalogue)) << toText(catalogue.takeError());
  return std::move(*catalogue);
}

Cluster clusterOf(const std::string &text) {
  auto cluster = parseCluster(text, "c.yaml");
  EXPECT_TRUE(bool(cluster)) << toText(cluster.takeError());
  return std::move(*cluster);
}

constexpr const char *device = "name: d\nkind: gpu\nmemory: 16GB\nfp32: 8TFLOP/s\n"
                               "bandwidth: 300GB/s\nprice_per_hour: 1\nsource: s\n"
                               "price_source: p\n";

std::string problemOf(const std::string &text) {
  auto parsed = parseCatalogueDevice(text, "d.yaml");
  return parsed ? "" : toText(parsed.takeError());
}

TEST(Catalogue, HasTheKnownHardware) {
  Catalogue catalogue = bundled();
  for (const char *name : {"t4", "v100-sxm2-16gb", "v100-sxm2-32gb", "a10", "l4", "a100-sxm4-40gb",
                           "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "xeon-gold-6271c",
                           "xeon-platinum-8480plus", "epyc-7763", "cpu-core"})
    EXPECT_TRUE(catalogue.device(name)) << name;
  for (const char *name :
       {"nvlink2", "nvlink3", "nvlink4", "pcie3", "pcie4", "pcie5", "ethernet-1g", "ethernet-10g",
        "ethernet-25g", "ethernet-100g", "infiniband-hdr", "infiniband-ndr", "loopback"})
    EXPECT_TRUE(catalogue.link(name)) << name;
  const DeviceType &a100 = *catalogue.device("a100-sxm4-40gb");
  EXPECT_EQ(a100.deviceClass, DeviceClass::Gpu);
  EXPECT_EQ(a100.memory, Bytes(40960.0 * (1 << 20)));
  EXPECT_EQ(a100.vendor, "nvidia");
  EXPECT_EQ(catalogue.device("mi300x")->vendor, "amd");
  EXPECT_GE(catalogue.devices().size(), 40u);
  EXPECT_EQ(a100.rates->fp32, FlopsPerSecond(19.5e12));
  EXPECT_EQ(a100.rates->tf32, FlopsPerSecond(156e12));
  EXPECT_EQ(a100.rates->memory, BytesPerSecond(1555e9));
}

TEST(Catalogue, EveryFigureNamesItsSource) {
  Catalogue catalogue = bundled();
  for (const auto &[name, entry] : catalogue.devices()) {
    EXPECT_FALSE(entry.rates->source.empty()) << name;
    EXPECT_GT(entry.rates->fp32.value(), 1e9) << name;
    EXPECT_LT(entry.rates->fp32.value(), 1e15) << name;
    EXPECT_GT(entry.price.value(), 0) << name;
  }
  for (const auto &[name, entry] : catalogue.links())
    EXPECT_FALSE(entry.source.empty()) << name;
}

TEST(Catalogue, MemoryOfRanksIsThatOfTheClassWhereTheDeviceHasNone) {
  Catalogue catalogue = bundled();
  for (const auto &[name, device] : catalogue.devices()) {
    EXPECT_GT(device.overhead.constant, Bytes(0)) << name;
    EXPECT_FALSE(device.overhead.source.empty()) << name;
  }
  const MemoryOverhead &small = catalogue.device("t4")->overhead,
                       &large = catalogue.device("h100-sxm5-80gb")->overhead;
  EXPECT_LT(small.constant, large.constant) << "a part of it is in proportion to the memory";
  EXPECT_LT(small.convolutions, large.convolutions);
  EXPECT_EQ(small.source, large.source);
  EXPECT_NE(catalogue.device("cpu-core")->overhead, catalogue.device("epyc-7763")->overhead);
  auto memory = parseClassMemory("kind: tpu\n", "m.yaml");
  EXPECT_NE(toText(memory.takeError()).find("accepted are"), std::string::npos);
  memory = parseClassMemory("kind: gpu\nof_memory: 0.01\nmeasured_memory: 2000B\n"
                            "memory_overhead: {constant: 100B, convolutions: 8}\n",
                            "m.yaml");
  ASSERT_TRUE(bool(memory)) << toText(memory.takeError());
  EXPECT_EQ(memory->on(Bytes(1000)).constant, Bytes(110));
  EXPECT_EQ(memory->on(Bytes(1000)).convolutions, 4);
  EXPECT_EQ(memory->on(Bytes(9000)).convolutions, 8);
}

TEST(Catalogue, BundledClustersResolve) {
  Catalogue catalogue = bundled();
  std::map<std::string, std::pair<size_t, int>> expected = {// types, devices
                                                            {"mixed-small", {4, 24}},
                                                            {"homogeneous-v100-32", {1, 32}},
                                                            {"mixed-64", {3, 64}},
                                                            {"cloud-large", {5, 1024}},
                                                            {"local-cpu", {1, 4}}};
  for (const auto &[name, size] : expected) {
    auto cluster = readCluster(profiles + "/clusters/" + name + ".yaml");
    ASSERT_TRUE(bool(cluster)) << toText(cluster.takeError());
    EXPECT_EQ(toText(catalogue.resolve(*cluster)), "");
    EXPECT_EQ(cluster->name, name);
    EXPECT_EQ(cluster->types.size(), size.first);
    EXPECT_EQ(cluster->totalDevices(), size.second);
    for (const DeviceType &type : cluster->types)
      EXPECT_TRUE(type.rates && type.memory.value() > 0 && type.price.value() > 0) << type.name;
    for (const NodeGroup &group : cluster->nodes)
      EXPECT_GT(group.link.bandwidth.value(), 0) << group.name;
  }
}

TEST(Catalogue, TheDocumentedExampleResolves) {
  auto text = readFile(HETERPLAN_TEST_DATA "/../../docs/clusters.md");
  ASSERT_TRUE(bool(text)) << toText(text.takeError());
  llvm::StringRef example = llvm::StringRef(*text).split("```yaml\n").second.split("```").first;
  Cluster cluster = clusterOf(example.str());
  EXPECT_EQ(toText(bundled().resolve(cluster)), "");
  EXPECT_EQ(cluster.totalDevices(), 44);
}

TEST(Catalogue, WhatTheClusterStatesWins) {
  Cluster cluster = clusterOf(R"(
device_types:
  a: {catalogue: t4}
  b: {catalogue: t4, kind: cpu, memory: 8GB, price_per_hour: 0, fp32: 1TFLOP/s}
nodes:
  - {name: n, devices: {a: 1, b: 1}, link: {bandwidth: 1GB/s, latency: 1us}}
  - {name: m, devices: {a: 1}}
network: ethernet-10g
)");
  ASSERT_EQ(toText(bundled().resolve(cluster)), "");
  const DeviceType &a = cluster.types[0], &b = cluster.types[1];
  EXPECT_EQ(a.deviceClass, DeviceClass::Gpu);
  EXPECT_EQ(a.memory, Bytes(15109.0 * (1 << 20)));
  EXPECT_EQ(a.price, DollarsPerHour(0.526));
  EXPECT_EQ(b.deviceClass, DeviceClass::Cpu);
  EXPECT_EQ(b.memory, Bytes(8e9));
  EXPECT_EQ(b.price, DollarsPerHour(0));
  EXPECT_EQ(b.rates->fp32, FlopsPerSecond(1e12));
  EXPECT_EQ(b.rates->bf16, FlopsPerSecond(0));
  EXPECT_EQ(b.rates->half(), FlopsPerSecond(65e12));
  EXPECT_EQ(b.rates->memory, BytesPerSecond(320e9));
  EXPECT_EQ(cluster.nodes[0].link.bandwidth, BytesPerSecond(1e9));
  EXPECT_EQ(cluster.nodes[1].link.bandwidth, BytesPerSecond(12e9)); // pcie3
  EXPECT_EQ(cluster.network.bandwidth, BytesPerSecond(1.25e9));
}

TEST(Catalogue, VendorsFollowFromNamesOfProducts) {
  Cluster cluster = clusterOf(R"(
device_types:
  mi50: {kind: gpu, memory: 16GB, fp32: 13TFLOP/s, bandwidth: 1TB/s}
  rtx3070: {kind: gpu, memory: 8GB, fp32: 20TFLOP/s, bandwidth: 448GB/s}
  Radeon-RX-7900: {kind: gpu, memory: 8GB, fp32: 20TFLOP/s, bandwidth: 448GB/s}
  mine: {kind: gpu, memory: 8GB, fp32: 20TFLOP/s, bandwidth: 448GB/s}
  stated: {kind: gpu, vendor: amd, memory: 8GB, fp32: 20TFLOP/s, bandwidth: 448GB/s}
nodes: [{name: n, devices: {mi50: 1, rtx3070: 1, Radeon-RX-7900: 1, mine: 1, stated: 1}}]
)");
  ASSERT_EQ(toText(bundled().resolve(cluster)), "");
  std::vector<std::string> vendors;
  for (const DeviceType &type : cluster.types)
    vendors.push_back(type.vendor);
  EXPECT_EQ(vendors, (std::vector<std::string>{"amd", "nvidia", "amd", "", "amd"}));
  const Catalogue catalogue = bundled();
  const MemoryOverhead &mine = cluster.types[3].overhead, &known = catalogue.device("t4")->overhead;
  EXPECT_EQ(mine.source, known.source) << "that of its class";
  EXPECT_LT(mine.constant, known.constant) << "for its own memory";
}

TEST(Catalogue, TheNearestNamesAreThoseOfTheProduct) {
  for (auto [asked, product] : {std::pair("A100", "a100-"),
                                {"RTX3090", "rtx-3090"},
                                {"v100", "v100-"},
                                {"rtx 4090 24gb", "rtx-4090"}}) {
    Cluster cluster = clusterOf(std::string("device_types: {a: {catalogue: '") + asked +
                                "'}}\nnodes: [{name: n, devices: {a: 1}}]\n");
    std::string problem = toText(bundled().resolve(cluster));
    EXPECT_NE(problem.find(std::string("the nearest are ") + product), std::string::npos)
        << problem;
  }
}

TEST(Catalogue, UnknownNamesAreAnsweredWithTheNearest) {
  Cluster cluster = clusterOf("device_types:\n  a: {catalogue: v100-sxm2}\n"
                              "nodes: [{name: n, devices: {a: 1}}]\n");
  std::string problem = toText(bundled().resolve(cluster));
  EXPECT_EQ(problem.find("c.yaml:2:18: error: [HP1402]"), 0u) << problem;
  EXPECT_NE(problem.find("v100-sxm2-16gb"), std::string::npos) << problem;
  cluster = clusterOf("device_types:\n  a: {catalogue: t4}\n"
                      "nodes: [{name: n, devices: {a: 1}, link: nvlink9}]\n");
  problem = toText(bundled().resolve(cluster));
  EXPECT_EQ(problem.find("c.yaml:3:42: error: [HP1214]"), 0u) << problem;
  EXPECT_NE(problem.find("nvlink2"), std::string::npos) << problem;
}

TEST(Catalogue, EntriesAreChecked) {
  std::string good = device;
  EXPECT_EQ(problemOf(good), "");
  auto without = [&](const std::string &line) {
    std::string text = good;
    return text.erase(text.find(line), line.size());
  };
  EXPECT_NE(problemOf(without("source: s\n")).find("[HP1004]"), std::string::npos);
  EXPECT_NE(problemOf(without("fp32: 8TFLOP/s\n")).find("[HP1004]"), std::string::npos);
  EXPECT_NE(problemOf(without("kind: gpu\n") + "kind: tpu\n").find("[HP1007]"), std::string::npos);
  EXPECT_NE(
      problemOf(without("fp32: 8TFLOP/s\n") + "fp32: 8TB\n").find("d.yaml:8:7: error: [HP1212]"),
      std::string::npos);
  EXPECT_NE(problemOf(without("fp32: 8TFLOP/s\n") + "fp32: 0TFLOP/s\n").find("[HP1216]"),
            std::string::npos);
  EXPECT_NE(problemOf(good + "colour: red\n").find("[HP1005]"), std::string::npos);
  EXPECT_NE(problemOf("[1, 2]").find("[HP1007]"), std::string::npos);
  auto link = parseCatalogueLink("name: l\nbandwidth: 1GB/s\nlatency: 1us\n", "l.yaml");
  ASSERT_FALSE(bool(link));
  EXPECT_NE(toText(link.takeError()).find("lacks 'source'"), std::string::npos);
}

/// A folder that is gone when the test ends.
struct TemporaryFolder {
  llvm::SmallString<128> path;
  TemporaryFolder() {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("heterplan-catalogue", path));
    for (const char *name : {"/devices", "/links"})
      EXPECT_FALSE(llvm::sys::fs::create_directory(path + name));
  }
  ~TemporaryFolder() { llvm::sys::fs::remove_directories(path); }
};

TEST(Catalogue, LoadingNamesTheFileAtFault) {
  TemporaryFolder folder;
  std::string root = folder.path.str().str();
  ASSERT_EQ(toText(writeFile(root + "/devices/d.yaml", device)), "");
  EXPECT_TRUE(bool(Catalogue::load(root)));
  ASSERT_EQ(toText(writeFile(root + "/devices/e.yaml", device)), "");
  auto twice = Catalogue::load(root);
  ASSERT_FALSE(bool(twice));
  std::string problem = toText(twice.takeError());
  EXPECT_NE(problem.find("e.yaml:1:1: error: [HP1103]"), std::string::npos) << problem;
  auto absent = Catalogue::load(root + "/nowhere");
  ASSERT_FALSE(bool(absent));
  EXPECT_NE(toText(absent.takeError()).find("[HP1001]"), std::string::npos);
}

TEST(Catalogue, ProfilesAreFound) {
  unsetenv("HETERPLAN_PROFILES");
  auto inSource = findProfiles(HETERPLAN_TEST_DATA "/../../build/bin/heterplan");
  ASSERT_TRUE(bool(inSource)) << toText(inSource.takeError());
  EXPECT_TRUE(bool(Catalogue::load(*inSource)));
  auto nowhere = findProfiles("/nonexistent/bin/heterplan");
  ASSERT_FALSE(bool(nowhere));
  EXPECT_NE(toText(nowhere.takeError()).find("/nonexistent/share/heterplan/profiles"),
            std::string::npos);
  setenv("HETERPLAN_PROFILES", profiles.c_str(), 1);
  auto stated = findProfiles("/nonexistent/bin/heterplan");
  unsetenv("HETERPLAN_PROFILES");
  ASSERT_TRUE(bool(stated)) << toText(stated.takeError());
  EXPECT_EQ(*stated, profiles);
}

/// The bandwidth of the link of a node of two devices.
BytesPerSecond bandwidthOf(const std::string &type, const std::string &link) {
  Cluster cluster = clusterOf("device_types: {gpu: {" + type + "}}\n" +
                              "nodes: [{name: n, devices: {gpu: 2}, link: " + link + "}]\n");
  EXPECT_FALSE(bool(bundled().resolve(cluster)));
  return cluster.nodes[0].link.bandwidth;
}

TEST(Catalogue, MessagesCrossTheHostWithoutPeerAccess) {
  EXPECT_EQ(bandwidthOf("catalogue: rtx-4090", "pcie4"), BytesPerSecond(5e9));
  EXPECT_EQ(bandwidthOf("catalogue: rtx-a6000", "pcie4"), BytesPerSecond(24e9));
  EXPECT_EQ(bandwidthOf("catalogue: rtx-a6000, peer_access: false", "pcie4"), BytesPerSecond(5e9));
  EXPECT_EQ(bandwidthOf("catalogue: rtx-4090, peer_access: true", "pcie4"), BytesPerSecond(24e9));
  EXPECT_EQ(bandwidthOf("catalogue: rtx-3090", "nvlink3"), bundled().link("nvlink3")->bandwidth);
  EXPECT_EQ(bandwidthOf("catalogue: rtx-4090", "{bandwidth: 20GB/s, latency: 5us}"),
            BytesPerSecond(20e9));
}

TEST(Catalogue, RefusesPeerAccessThatIsNoFlag) {
  EXPECT_NE(problemOf(std::string(device) + "peer_access: perhaps\n").find("true or false"),
            std::string::npos);
}
} // namespace
