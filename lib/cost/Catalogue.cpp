#include "cost/Catalogue.h"

#include "ir/MemoryOverhead.h"
#include "support/Files.h"
#include "support/Yaml.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;

/// The words of a product name in lower case: runs of letters with the digits behind them, where a
/// run of several letters is a word of its own ("RTX3090-Ti": rtx, 3090, ti; "A100": a100).
std::vector<std::string> wordsOf(StringRef name) {
  std::vector<std::string> words;
  bool joins = false;
  for (char letter : name) {
    if (!isAlnum(letter)) {
      joins = false;
      continue;
    }
    bool changes = joins && isDigit(letter) != isDigit(words.back().back());
    if (!joins || (changes && words.back().size() > 1))
      words.emplace_back();
    words.back() += toLower(letter);
    joins = true;
  }
  return words;
}

/// The names of `entries` that look most like `name`, for a note: those of the same product first.
template <typename Entry>
std::string nearest(StringRef name, const std::map<std::string, Entry> &entries) {
  constexpr size_t shown = 4;
  const StringRef stated = name.take_front(100);
  const std::string lower = stated.lower();
  const std::vector<std::string> wanted = wordsOf(stated);
  std::vector<std::tuple<int, unsigned, StringRef>> ranked;
  ranked.reserve(entries.size());
  for (const auto &[known, entry] : entries) {
    const std::vector<std::string> words = wordsOf(known);
    int shared = 0; // numbers tell products apart, words only makers
    for (const std::string &word : wanted)
      if (is_contained(words, word))
        shared += any_of(word, isDigit) ? 4 : 1;
    ranked.emplace_back(-shared, StringRef(lower).edit_distance(known), known);
  }
  llvm::sort(ranked);
  std::string text = ranked.empty() ? "the catalogue is empty" : "the nearest are ";
  for (size_t i = 0; i < std::min(shown, ranked.size()); ++i)
    text += (i ? ", " : "") + std::get<StringRef>(ranked[i]).str();
  return text;
}

/// The vendor of a device that is called as its product is; empty: not known.
std::string vendorOf(StringRef name, const std::map<std::string, DeviceType> &entries) {
  const std::vector<std::string> words = wordsOf(name);
  for (const auto &[known, entry] : entries)
    if (entry.deviceClass == DeviceClass::Gpu)
      for (const std::string &word : wordsOf(known))
        if (word.size() > 1 && any_of(word, isDigit) && !isDigit(word.front()) &&
            is_contained(words, word))
          return entry.vendor;
  static const std::pair<const char *, const char *> makers[] = {
      {"nvidia", "nvidia"}, {"geforce", "nvidia"}, {"rtx", "nvidia"},   {"gtx", "nvidia"},
      {"tesla", "nvidia"},  {"quadro", "nvidia"},  {"titan", "nvidia"}, {"gh", "nvidia"},
      {"amd", "amd"},       {"radeon", "amd"},     {"instinct", "amd"}, {"mi", "amd"},
      {"rx", "amd"},        {"intel", "intel"},    {"arc", "intel"},    {"gaudi", "intel"}};
  for (const auto &[maker, vendor] : makers)
    if (is_contained(words, maker))
      return vendor;
  return "";
}

/// Paths of the *.yaml files of `folder`, sorted.
Expected<std::vector<std::string>> yamlFiles(const Twine &folder) {
  std::vector<std::string> paths;
  std::error_code failure;
  for (sys::fs::directory_iterator file(folder, failure), end; file != end && !failure;
       file.increment(failure))
    if (sys::path::extension(file->path()) == ".yaml")
      paths.push_back(file->path());
  if (failure)
    return Diagnostic(Diag::CannotRead, {folder.str(), 0, 0, ""})
           << "cannot list the folder: " << failure.message();
  llvm::sort(paths);
  return paths;
}

template <typename Entry>
Error loadFolder(const Twine &folder, Expected<Entry> (*parse)(StringRef, StringRef),
                 std::map<std::string, Entry> &entries) {
  Expected<std::vector<std::string>> paths = yamlFiles(folder);
  if (!paths)
    return paths.takeError();
  for (const std::string &path : *paths) {
    Expected<std::string> text = readFile(path, largestYaml);
    if (!text)
      return text.takeError();
    Expected<Entry> entry = parse(*text, path);
    if (!entry)
      return entry.takeError();
    Location place = entry->location;
    std::string name = entry->name;
    if (!entries.try_emplace(name, std::move(*entry)).second)
      return Diagnostic(Diag::DuplicateName, place) << "the catalogue has '" << name << "' twice";
  }
  return Error::success();
}

YamlField textField(const char *key, Presence presence, std::string &result) {
  return {key, presence,
          [=, &result](const YamlNode &node) { return readText(node, key, result); }};
}

YamlField rateField(const char *key, Presence presence, FlopsPerSecond &result) {
  return {key, presence,
          [=, &result](const YamlNode &node) { return readFlopRate(node, key, result); }};
}

YamlField bandwidthField(BytesPerSecond &result) {
  return {"bandwidth", required,
          [&](const YamlNode &node) { return readBandwidth(node, "bandwidth", result); }};
}

void merge(const DeviceType &known, DeviceType &type) {
  const PeakRates stated = type.rates.value_or(PeakRates());
  PeakRates &rates = type.rates.emplace(*known.rates);
  auto keep = [](auto statedRate, auto &rate) {
    if (statedRate.value() > 0)
      rate = statedRate;
  };
  keep(stated.fp32, rates.fp32);
  keep(stated.tf32, rates.tf32);
  keep(stated.bf16, rates.bf16);
  keep(stated.fp16, rates.fp16);
  keep(stated.sustained.fp32, rates.sustained.fp32);
  keep(stated.sustained.tf32, rates.sustained.tf32);
  keep(stated.sustained.half, rates.sustained.half);
  keep(stated.sustained.memory, rates.sustained.memory);
  keep(stated.memory, rates.memory);
  if (!stated.source.empty())
    rates.source = stated.source + "; the rest: " + rates.source;
  if (!type.statesKind)
    type.deviceClass = known.deviceClass;
  if (type.memory == Bytes())
    type.memory = known.memory;
  if (!type.statesPrice)
    type.price = known.price;
  if (type.cores == 0)
    type.cores = known.cores;
  if (!type.overhead)
    type.overhead = known.overhead;
  if (type.vendor.empty())
    type.vendor = known.vendor;
  if (type.architecture.empty())
    type.architecture = known.architecture;
  if (!type.peerAccess)
    type.peerAccess = known.peerAccess;
}

/// Messages in nodes whose devices do not reach each other's memory go through that of the host.
void slowWithoutPeerAccess(Cluster &cluster) {
  for (NodeGroup &node : cluster.nodes)
    for (const auto &[name, count] : node.devices) {
      const DeviceType &type = cluster.types[cluster.typeIndex(name)];
      if (node.link.throughHost.value() > 0 && type.peerAccess == false)
        node.link.bandwidth = std::min(node.link.bandwidth, node.link.throughHost);
    }
}
} // namespace

Expected<DeviceType> parseCatalogueDevice(StringRef text, StringRef path) {
  Expected<YamlNode> root = parseYaml(text, path);
  if (!root)
    return root.takeError();
  DeviceType device;
  device.location = root->location;
  PeakRates rates;
  std::string kind, priceSource, note;
  double price = 0;
  if (Error error = readMapping(
          *root, "a device of the catalogue",
          {textField("name", required, device.name),
           textField("kind", required, kind),
           {"memory", required,
            [&](const YamlNode &node) { return readBytes(node, "memory", device.memory); }},
           {"cores", optional,
            [&](const YamlNode &node) { return readCores(node, "cores", device.cores); }},
           memoryOverheadField("a device of the catalogue", "catalogue", device.overhead),
           rateField("fp32", required, rates.fp32),
           rateField("tf32", optional, rates.tf32),
           rateField("bf16", optional, rates.bf16),
           rateField("fp16", optional, rates.fp16),
           textField("vendor", optional, device.vendor),
           textField("architecture", optional, device.architecture),
           {"peer_access", optional,
            [&](const YamlNode &node) {
              return readFlag(node, "peer_access", device.peerAccess.emplace());
            }},
           {"sustained", optional,
            [&](const YamlNode &node) {
              return readSustained(node, "sustained rates", rates.sustained);
            }},
           bandwidthField(rates.memory),
           {"price_per_hour", required,
            [&](const YamlNode &node) { return readNumber(node, "price_per_hour", 1e6, price); }},
           textField("source", required, rates.source),
           textField("price_source", required, priceSource),
           textField("note", optional, note)}))
    return error;
  std::optional<DeviceClass> deviceClass = deviceClassOf(kind);
  if (!deviceClass)
    return Diagnostic(Diag::WrongType, root->location)
           << "kind is '" << kind << "'; accepted are " << deviceClassNames();
  if (rates.fp32 == FlopsPerSecond())
    return Diagnostic(Diag::OutOfRange, root->location) << "fp32 must be positive";
  device.deviceClass = *deviceClass;
  device.price = DollarsPerHour(price);
  device.catalogue = device.name;
  device.rates = rates;
  return device;
}

Expected<Link> parseCatalogueLink(StringRef text, StringRef path) {
  Expected<YamlNode> root = parseYaml(text, path);
  if (!root)
    return root.takeError();
  Link link;
  link.location = root->location;
  if (Error error = readMapping(
          *root, "a link of the catalogue",
          {textField("name", required, link.name),
           bandwidthField(link.bandwidth),
           {"pair_bandwidth", optional,
            [&](const YamlNode &node) {
              return readBandwidth(node, "pair_bandwidth", link.pairBandwidth);
            }},
           {"through_host", optional,
            [&](const YamlNode &node) {
              return readBandwidth(node, "through_host", link.throughHost);
            }},
           {"latency", required,
            [&](const YamlNode &node) { return readLatency(node, "latency", link.latency); }},
           {"overlap_loss", optional,
            [&](const YamlNode &node) {
              return readNumber(node, "overlap_loss", 1, link.overlapLoss);
            }},
           textField("source", required, link.source)}))
    return error;
  return link;
}

Expected<ClassMemory> parseClassMemory(StringRef text, StringRef path) {
  Expected<YamlNode> root = parseYaml(text, path);
  if (!root)
    return root.takeError();
  ClassMemory memory;
  memory.location = root->location;
  if (Error error =
          readMapping(*root, "the memory of a device class",
                      {textField("kind", required, memory.name),
                       {"measured_memory", optional,
                        [&](const YamlNode &node) {
                          return readBytes(node, "measured_memory", memory.measured);
                        }},
                       {"of_memory", optional,
                        [&](const YamlNode &node) {
                          return readNumber(node, "of_memory", 1, memory.ofMemory);
                        }},
                       memoryOverheadField("a device class", "catalogue", memory.overhead)}))
    return error;
  if (!deviceClassOf(memory.name))
    return Diagnostic(Diag::WrongType, root->location)
           << "kind is '" << memory.name << "'; accepted are " << deviceClassNames();
  return memory;
}

Expected<Catalogue> Catalogue::load(StringRef folder) {
  Catalogue catalogue;
  if (Error error = loadFolder(folder + "/devices", parseCatalogueDevice, catalogue.deviceEntries))
    return error;
  if (Error error = loadFolder(folder + "/links", parseCatalogueLink, catalogue.linkEntries))
    return error;
  if (sys::fs::is_directory(folder + "/memory"))
    if (Error error = loadFolder(folder + "/memory", parseClassMemory, catalogue.memoryEntries))
      return error;
  for (auto &[name, device] : catalogue.deviceEntries)
    if (auto memory = catalogue.memoryEntries.find(nameOf(device.deviceClass));
        !device.overhead && memory != catalogue.memoryEntries.end())
      device.overhead = memory->second.on(device.memory);
  return catalogue;
}

const DeviceType *Catalogue::device(StringRef name) const {
  auto entry = deviceEntries.find(name.str());
  return entry == deviceEntries.end() ? nullptr : &entry->second;
}

const Link *Catalogue::link(StringRef name) const {
  auto entry = linkEntries.find(name.str());
  return entry == linkEntries.end() ? nullptr : &entry->second;
}

void Catalogue::completeByHand(DeviceType &type) const {
  if (type.vendor.empty() && type.deviceClass == DeviceClass::Gpu)
    type.vendor = vendorOf(type.name, deviceEntries);
  // Without rates nothing is known of the device, and its memory is that of tensors alone.
  auto memory = memoryEntries.find(nameOf(type.deviceClass));
  if (!type.overhead && type.rates && type.deviceClass == DeviceClass::Gpu &&
      memory != memoryEntries.end())
    type.overhead = memory->second.on(type.memory);
}

Error Catalogue::resolve(Cluster &cluster) const {
  for (DeviceType &type : cluster.types) {
    if (type.catalogue.empty()) {
      completeByHand(type);
      continue;
    }
    const DeviceType *known = device(type.catalogue);
    if (!known)
      return Diagnostic(Diag::NoCatalogueEntry, type.catalogueLocation)
                 .note({}, nearest(type.catalogue, deviceEntries))
             << "the catalogue has no device '" << type.catalogue << "'";
    merge(*known, type);
  }
  for (Link *used : linksOf(cluster)) {
    if (used->name.empty() || used->bandwidth.value() > 0)
      continue;
    const Link *known = link(used->name);
    if (!known)
      return Diagnostic(Diag::UnknownLink, used->location)
                 .note({}, nearest(used->name, linkEntries))
             << "the catalogue has no link '" << used->name << "'";
    Location place = used->location;
    *used = *known;
    used->location = place;
  }
  slowWithoutPeerAccess(cluster);
  return cluster.verify();
}

Expected<std::string> findProfiles(StringRef executablePath) {
  std::vector<std::string> candidates;
  if (const char *stated = std::getenv("HETERPLAN_PROFILES"); stated && *stated) {
    candidates.push_back(stated);
  } else {
    StringRef folder = sys::path::parent_path(executablePath);
    for (const char *relative : {"../share/heterplan/profiles", "../../profiles"}) {
      SmallString<128> path(folder);
      sys::path::append(path, relative);
      sys::path::remove_dots(path, /*remove_dot_dot=*/true);
      candidates.push_back(path.str().str());
    }
  }
  std::string tried;
  for (const std::string &candidate : candidates) {
    if (sys::fs::is_directory(candidate + "/devices"))
      return candidate;
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  return Diagnostic(Diag::CannotRead, {})
             .note({}, "set HETERPLAN_PROFILES to the folder that holds devices/ and links/")
         << "no hardware catalogue; tried " << tried;
}

} // namespace heterplan
