// heterplan import: an ONNX model as layers.
#include "Commands.h"
#include "Inputs.h"
#include "LayerText.h"
#include "Options.h"
#include "StructureText.h"
#include "Table.h"

#include "ir/onnx/group/Grouping.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

using namespace heterplan;
using namespace llvm;

namespace {

struct ImportCommand {
  std::string model, output, batch, format = "text";
  ModelOptions reading;
  bool json = false;
};

void writeCoverage(JsonWriter &json, const Model &model) {
  json.attributeArray("coverage", [&] {
    if (!model.graph)
      return;
    for (const CoverageRow &row : coverage(*model.graph))
      json.object([&] {
        json.attribute("op", row.op);
        json.attribute("nodes", row.nodes);
        json.attribute("costed", row.costed);
        json.attribute("how", row.how);
      });
  });
  json.attributeArray("notes", [&] {
    for (const std::string &note : model.layers.notes)
      json.value(note);
  });
}

std::vector<LayerCounts> countsOf(const Model &model) {
  return countLayers(model.layers, model.graph ? &*model.graph : nullptr);
}

void printFacts(const Model &model, int64_t batch) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("model", model.layers.model);
    json.attribute("fingerprint", model.layers.fingerprint);
    writeLayers(json, model.layers, countsOf(model), batch);
    writeBlocks(json, model.layers);
    writeStructure(json, decompose(model.layers), model.layers, batch);
    writeCoverage(json, model);
  });
}

void printCoverage(const Graph &graph) {
  Table table({"operator", ">nodes", "cost"});
  int nodes = 0, costed = 0;
  for (const CoverageRow &row : coverage(graph)) {
    table.row({row.op, std::to_string(row.nodes), row.how});
    nodes += row.nodes;
    costed += row.costed ? row.nodes : 0;
  }
  outs() << "\ncoverage: " << costed << " of " << nodes << " operators have a cost formula\n";
  table.print(outs());
}

void printText(const Model &model, int64_t batch) {
  printLayers(outs(), model.layers, countsOf(model), batch);
  printTables(outs(), model.layers);
  printBlocks(outs(), model.layers);
  printStructure(outs(), decompose(model.layers), model.layers, batch);
  for (const std::string &note : model.layers.notes)
    outs() << "note: " << note << '\n';
  if (model.graph)
    printCoverage(*model.graph);
}

enum Format : size_t { formatText, formatJson, formatDot };

void show(const Model &model, size_t format, int64_t batch, bool facts) {
  if (format == formatJson)
    outs() << toJson(model.layers);
  else if (format == formatDot)
    printLayersDot(outs(), model.layers);
  else if (facts)
    printFacts(model, batch);
  else
    printText(model, batch);
}

Expected<ExitStatus> import(const ImportCommand &command) {
  Expected<int64_t> batch = wholeOption("--batch", command.batch, 1, 1, largestBatch);
  if (!batch)
    return batch.takeError();
  Expected<size_t> format = choiceOption("--format", command.format, {"text", "json", "dot"});
  if (!format)
    return format.takeError();
  ModelOptions reading = command.reading;
  reading.lookOnly = command.output.empty(); // layers that are written are there to be planned
  Expected<Model> model = readModel(command.model, reading);
  if (!model)
    return model.takeError();
  if (!command.output.empty())
    if (Error error = writeFile(command.output, toJson(model->layers)))
      return error;
  show(*model, *format, *batch, command.json);
  return exitDone;
}

} // namespace

void heterplan::addImport(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("import", "read a model; print its layers");
  auto options = std::make_shared<ImportCommand>();
  addArgument(*command, "MODEL", options->model, "a .onnx file (or .layers.json)");
  addText(*command, "-o,--output", options->output, "FILE", "write the layers to F.layers.json");
  addText(*command, "--batch", options->batch, "N", "print the figures for N samples (1)");
  addText(*command, "--format", options->format, "FORMAT", "text, json (the layers file) or dot");
  addReadingOptions(*command, options->reading);
  command->add_flag("--json", options->json, "print the table and its totals as JSON");
  command->callback([options, &action] { action = [options] { return import(*options); }; });
}
