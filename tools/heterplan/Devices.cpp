// heterplan devices, heterplan links: what the hardware catalogue knows.
#include "Commands.h"
#include "Inputs.h"
#include "Table.h"

#include "support/JsonWriter.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct ListOptions {
  std::string pattern;
  bool json = false;
};

bool matches(StringRef name, StringRef pattern) {
  return pattern.empty() || name.contains_insensitive(pattern);
}

std::string tera(FlopsPerSecond rate) {
  return rate.value() > 0 ? fixed(rate.value() / 1e12, 1) : "-";
}

std::string giga(BytesPerSecond rate) { return fixed(rate.value() / 1e9, 0); }

void writeRates(JsonWriter &json, const PeakRates &rates) {
  json.attribute("fp32", rates.fp32.value());
  json.attribute("tf32", rates.tf32.value());
  json.attribute("bf16", rates.bf16.value());
  json.attribute("fp16", rates.half().value());
  json.attribute("bandwidth", rates.memory.value());
  json.attribute("source", rates.source);
}

void printDevicesAsJson(const Catalogue &catalogue, StringRef pattern) {
  JsonWriter json(outs());
  json.object([&] {
    json.attributeArray("devices", [&] {
      for (const auto &[name, device] : catalogue.devices())
        if (matches(name, pattern))
          json.object([&, &name = name, &device = device] {
            json.attribute("name", name);
            json.attribute("kind", nameOf(device.deviceClass));
            json.attribute("vendor", device.vendor);
            json.attribute("architecture", device.architecture);
            json.attribute("memoryBytes", device.memory.value());
            json.attribute("pricePerHour", device.price.value());
            writeRates(json, *device.rates);
          });
    });
  });
}

void printDevices(const Catalogue &catalogue, StringRef pattern) {
  Table table(
      {"device", "kind", "vendor", ">memory", ">fp32", ">tf32", ">bf16", ">fp16", ">GB/s", ">$/h"});
  for (const auto &[name, device] : catalogue.devices())
    if (matches(name, pattern)) {
      const PeakRates &rates = *device.rates;
      table.row({name, nameOf(device.deviceClass), device.vendor.empty() ? "-" : device.vendor,
                 readable(device.memory), tera(rates.fp32), tera(rates.tf32), tera(rates.bf16),
                 tera(rates.half()), giga(rates.memory), fixed(device.price.value(), 2)});
    }
  table.print(outs());
  outs()
      << "rates in TFLOP/s, of the data sheets; the files of profiles/devices name the source of "
         "each figure\n";
}

void printLinksAsJson(const Catalogue &catalogue, StringRef pattern) {
  JsonWriter json(outs());
  json.object([&] {
    json.attributeArray("links", [&] {
      for (const auto &[name, link] : catalogue.links())
        if (matches(name, pattern))
          json.object([&, &name = name, &link = link] {
            json.attribute("name", name);
            json.attribute("bandwidth", link.bandwidth.value());
            json.attribute(
                "pairBandwidth",
                (link.pairBandwidth.value() > 0 ? link.pairBandwidth : link.bandwidth).value());
            json.attribute("latencySeconds", link.latency.value());
            json.attribute("source", link.source);
          });
    });
  });
}

void printLinks(const Catalogue &catalogue, StringRef pattern) {
  Table table({"link", ">GB/s", ">GB/s of a pair", ">latency"});
  for (const auto &[name, link] : catalogue.links())
    if (matches(name, pattern))
      table.row({name, fixed(link.bandwidth.value() / 1e9, 2),
                 link.pairBandwidth.value() > 0 ? fixed(link.pairBandwidth.value() / 1e9, 2) : "-",
                 readable(link.latency)});
  table.print(outs());
}

using Print = void (*)(const Catalogue &, StringRef);

Expected<ExitStatus> list(const ListOptions &options, Print asText, Print asJson) {
  Expected<Catalogue> catalogue = readCatalogue();
  if (!catalogue)
    return catalogue.takeError();
  (options.json ? asJson : asText)(*catalogue, options.pattern);
  return exitDone;
}

void addList(CLI::App &root, Action &action, const char *name, const char *help, Print asText,
             Print asJson) {
  CLI::App *command = root.add_subcommand(name, help);
  auto options = std::make_shared<ListOptions>();
  command->add_option("NAME", options->pattern, "part of a name; without one all are listed")
      ->type_name("");
  command->add_flag("--json", options->json, "print the list as JSON");
  command->callback([=, &action] { action = [=] { return list(*options, asText, asJson); }; });
}

} // namespace

void heterplan::addDevices(CLI::App &root, Action &action) {
  addList(root, action, "devices", "list the device types of the hardware catalogue", printDevices,
          printDevicesAsJson);
  addList(root, action, "links", "list the links of the hardware catalogue", printLinks,
          printLinksAsJson);
}
