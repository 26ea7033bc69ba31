#include "cost/Machine.h"

#include "ir/FileForms.h"
#include "support/Files.h"

#include "../../support/Prove.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

using namespace heterplan;
using namespace llvm;

namespace {
class FakeRoot : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("machine", root));
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Fine CPU\nprocessor\t: 1\n");
    write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       8388608 kB\n");
    write("sys/devices/system/node/node0/cpulist", "0-1\n");
    write("sys/devices/system/node/node1/cpulist", "2,3\n");
  }
  void TearDown() override { sys::fs::remove_directories(root); }

  void write(StringRef name, StringRef text) {
    SmallString<128> path(root);
    sys::path::append(path, name);
    ASSERT_FALSE(sys::fs::create_directories(sys::path::parent_path(path)));
    ASSERT_FALSE(errorToBool(writeFile(path, text)));
  }

  SmallString<128> root;
};

Catalogue catalogue() { return cantFail(Catalogue::load(HETERPLAN_SOURCE_DIR "/profiles")); }
} // namespace

TEST_F(FakeRoot, saysWhatTheSystemSays) {
  Machine machine = readMachine(root);
  EXPECT_EQ(machine.cpu, "A Fine CPU");
  EXPECT_EQ(machine.memory, Bytes(8.0 * (1 << 30)));
  EXPECT_EQ(machine.numa, (std::vector<std::string>{"0-1", "2,3"}));
  EXPECT_GE(machine.cores, 1);
}

TEST_F(FakeRoot, anEmptyOneStaysEmpty) {
  Machine machine = readMachine((root + "/sys").str());
  EXPECT_EQ(machine.cpu, "");
  EXPECT_EQ(machine.memory, Bytes(0));
  EXPECT_TRUE(machine.numa.empty());
}

TEST(Machine, isAClusterFile) {
  Machine machine{"some-host", "A Fine CPU", 4, {"0-3"}, Bytes(8.0 * (1 << 30)), {}, ""};
  Catalogue known = catalogue();
  Cluster cluster = cantFail(parseCluster(clusterFile(machine, known), "machine.yaml"));
  ASSERT_FALSE(errorToBool(known.resolve(cluster)));
  ASSERT_EQ(cluster.types.size(), 1u);
  EXPECT_EQ(cluster.types[0].memory, Bytes(2.0 * (1 << 30)));
  EXPECT_EQ(cluster.nodes[0].devices.at("core"), 4);
  EXPECT_EQ(cluster.nodes[0].link.name, "loopback");
}

TEST(Machine, equalGpusAreOneType) {
  GpuFacts h200{"NVIDIA H200", Bytes(140.0 * (1 << 30))}, odd{"Odd Card 9", Bytes(1 << 30)};
  Machine machine{"some-host", "", 2, {}, Bytes(8.0 * (1 << 30)), {h200, odd, h200}, "CUDA 13.0"};
  Catalogue known = catalogue();
  Cluster cluster = cantFail(parseCluster(clusterFile(machine, known), "machine.yaml"));
  ASSERT_FALSE(errorToBool(known.resolve(cluster)));
  EXPECT_EQ(cluster.nodes[0].devices.at("nvidia-h200"), 2);
  EXPECT_EQ(cluster.nodes[0].devices.at("odd-card-9"), 1);
  EXPECT_EQ(cluster.types[1].catalogue, "h200-sxm5-141gb");
  EXPECT_EQ(cluster.types[2].catalogue, "");
  EXPECT_EQ(cluster.types[2].deviceClass, DeviceClass::Gpu);
}

TEST(Machine, anEntryFitsByNameAndMemory) {
  Catalogue known = catalogue();
  auto entry = [&](const char *name, double gigabytes) -> std::string {
    const DeviceType *found = entryFor({name, Bytes(gigabytes * 1e9)}, known);
    return found ? found->name : "";
  };
  EXPECT_EQ(entry("NVIDIA A100-SXM4-40GB", 42.4), "a100-sxm4-40gb");
  EXPECT_EQ(entry("NVIDIA A100-SXM4-80GB", 84.9), "a100-sxm4-80gb");
  EXPECT_EQ(entry("Tesla T4", 15.6), "t4");
  EXPECT_EQ(entry("Tesla T4", 32), "");
  EXPECT_EQ(entry("Tesla K80", 12), "k80");
  EXPECT_EQ(entry("NVIDIA A100-PCIE-40GB", 42.4), "a100-pcie-40gb");
  EXPECT_EQ(entry("NVIDIA H100 80GB HBM3", 85.5), "h100-sxm5-80gb");
  EXPECT_EQ(entry("NVIDIA H100 PCIe", 85.5), "h100-pcie-80gb");
  EXPECT_EQ(entry("NVIDIA GeForce RTX 3090 Ti", 25.8), "rtx-3090-ti");
  EXPECT_EQ(entry("NVIDIA GeForce RTX 3090", 25.8), "rtx-3090");
  EXPECT_EQ(entry("Tesla M60", 8), "");
}
