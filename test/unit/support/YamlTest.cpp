#include "support/Yaml.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
YamlNode scalar(const std::string &text) {
  YamlNode node;
  node.kind = YamlNode::Kind::Scalar;
  node.text = text;
  node.location = {"f.yaml", 2, 3, ""};
  return node;
}

double bytesOf(const std::string &text) {
  Bytes size{};
  return toText(readBytes(scalar(text), "memory of x", size)).empty() ? size.value() : -1;
}
double bandwidthOf(const std::string &text) {
  BytesPerSecond rate{};
  return toText(readBandwidth(scalar(text), "bandwidth of x", rate)).empty() ? rate.value() : -1;
}
double secondsOf(const std::string &text) {
  Seconds time{};
  return toText(readLatency(scalar(text), "latency of x", time)).empty() ? time.value() : -1;
}
double flopRateOf(const std::string &text) {
  FlopsPerSecond rate{};
  return toText(readFlopRate(scalar(text), "fp32 of x", rate)).empty() ? rate.value() : -1;
}

TEST(YamlScalars, EveryUnit) {
  EXPECT_EQ(bytesOf("7B"), 7);
  EXPECT_EQ(bytesOf("7KB"), 7e3);
  EXPECT_EQ(bytesOf("7MB"), 7e6);
  EXPECT_EQ(bytesOf("7GB"), 7e9);
  EXPECT_EQ(bytesOf("7TB"), 7e12);
  EXPECT_EQ(bytesOf("7KiB"), 7168);
  EXPECT_EQ(bytesOf("7MiB"), 7.0 * (1 << 20));
  EXPECT_EQ(bytesOf("7GiB"), 7.0 * (1 << 30));
  EXPECT_EQ(bytesOf("7TiB"), 7.0 * 1024 * (1 << 30));
  EXPECT_EQ(bandwidthOf("8bit/s"), 1);
  EXPECT_EQ(bandwidthOf("8Kbit/s"), 1e3);
  EXPECT_EQ(bandwidthOf("8Mbit/s"), 1e6);
  EXPECT_EQ(bandwidthOf("8Gbit/s"), 1e9);
  EXPECT_EQ(bandwidthOf("8Tbit/s"), 1e12);
  EXPECT_EQ(bandwidthOf("8B/s"), 8);
  EXPECT_EQ(bandwidthOf("8KB/s"), 8e3);
  EXPECT_EQ(bandwidthOf("8MB/s"), 8e6);
  EXPECT_EQ(bandwidthOf("8GB/s"), 8e9);
  EXPECT_EQ(bandwidthOf("8TB/s"), 8e12);
  EXPECT_EQ(secondsOf("3s"), 3);
  EXPECT_EQ(secondsOf("3ms"), 3e-3);
  EXPECT_DOUBLE_EQ(secondsOf("3us"), 3e-6);
  EXPECT_DOUBLE_EQ(secondsOf("3ns"), 3e-9);
  EXPECT_EQ(flopRateOf("2FLOP/s"), 2);
  EXPECT_EQ(flopRateOf("2MFLOP/s"), 2e6);
  EXPECT_EQ(flopRateOf("2GFLOP/s"), 2e9);
  EXPECT_EQ(flopRateOf("2TFLOP/s"), 2e12);
  EXPECT_EQ(flopRateOf("2PFLOP/s"), 2e15);
}

TEST(YamlScalars, NumbersAsPeopleWriteThem) {
  EXPECT_EQ(bytesOf("1.5GB"), 1.5e9);
  EXPECT_EQ(bytesOf("1.5 GB"), 1.5e9);
  EXPECT_EQ(bytesOf("1e3KB"), 1e6);
  EXPECT_EQ(bytesOf(".5KB"), 500);
  for (const char *text : {"", "GB", "16", "16gb", "16GBs", "-1GB", "+1GB", "nanGB", "infGB",
                           "0x1GB", "1e999GB", "1 2GB", "1,5GB", "1..5GB", "0GB", "1e10TB"})
    EXPECT_EQ(bytesOf(text), -1) << text;
  EXPECT_EQ(bytesOf(std::string(100000, '1') + "GB"), -1);
}

TEST(YamlScalars, MessagesNameTheValueAndItsOwner) {
  Bytes size{};
  EXPECT_EQ(toText(readBytes(scalar("16GX"), "memory of device type 'v100'", size)),
            "f.yaml:2:3: error: [HP1212] memory '16GX' of device type 'v100' is not a size; write "
            "e.g. 16GiB");
  EXPECT_EQ(toText(readBytes(scalar("0B"), "memory", size)),
            "f.yaml:2:3: error: [HP1216] memory '0B' is out of range; 1 to 1e+18 B are accepted");
}

TEST(Yaml, KnowsItsPlaces) {
  auto root = parseYaml("a: 1\nb:\n  - x\n  - {c: 'quoted', d: \"e\\n\"}\n", "f.yaml");
  ASSERT_TRUE(bool(root)) << toText(root.takeError());
  ASSERT_EQ(root->entries.size(), 2u);
  const YamlEntry &b = root->entries[1];
  EXPECT_EQ(b.location, (Location{"f.yaml", 2, 1, ""}));
  ASSERT_EQ(b.value.items.size(), 2u);
  const YamlNode &map = b.value.items[1];
  EXPECT_EQ(map.location, (Location{"f.yaml", 4, 5, ""}));
  EXPECT_EQ(map.entries[0].value.text, "quoted");
  EXPECT_EQ(map.entries[1].value.text, "e\n");
  EXPECT_EQ(map.entries[1].value.location, (Location{"f.yaml", 4, 22, ""}));
}

TEST(Yaml, ValuesBeforeABracketOnTheNextLineEndWithTheirLine) {
  YamlNode root = llvm::cantFail(parseYaml("{\n  \"a\": {\n    \"b\": 14.7\n  }\n}\n", "x.json"));
  double number = 0;
  EXPECT_FALSE(bool(readNumber(root.entries[0].value.entries[0].value, "b", 100, number)));
  EXPECT_EQ(number, 14.7);
}

TEST(Yaml, MappingsAreCheckedAgainstTheirFields) {
  auto ignore = [](const YamlNode &) { return llvm::Error::success(); };
  std::vector<YamlField> fields = {{"a", Presence::Required, ignore},
                                   {"b", Presence::Optional, ignore}};
  auto problemOf = [&](const char *text) {
    auto root = parseYaml(text, "f.yaml");
    EXPECT_TRUE(bool(root)) << toText(root.takeError());
    return toText(readMapping(*root, "the thing", fields));
  };
  EXPECT_EQ(problemOf("a: 1\n"), "");
  EXPECT_EQ(problemOf("b: 1\n"), "f.yaml:1:1: error: [HP1004] the thing lacks 'a'");
  EXPECT_EQ(problemOf("a: 1\nc: 2\n"),
            "f.yaml:2:1: error: [HP1005] the thing has no key 'c'\nnote: accepted are a, b");
  EXPECT_EQ(problemOf("[a]\n"), "f.yaml:1:1: error: [HP1007] the thing must be a mapping (key: "
                                "value)\nnote: its keys are a, b");
}
} // namespace
