// heterplan import: an ONNX model as layers.
#include "Commands.h"
#include "Inputs.h"
#include "LayerText.h"
#include "OptionChoices.h"
#include "Options.h"
#include "ShardText.h"
#include "StructureText.h"
#include "Table.h"
#include "TensorParallel.h"

#include "ir/onnx/group/Grouping.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct ImportCommand {
  std::string model, output, batch, tensorParallel, sequenceParallel, format = "text";
  ModelOptions reading;
  bool json = false, verbose = false;
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

using Shards = std::optional<ModelShard>;

void printFacts(const Model &model, const Shards &shards, int64_t batch) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("model", model.layers.model);
    json.attribute("fingerprint", model.layers.fingerprint);
    writeLayers(json, model.layers, countsOf(model), batch);
    writeBlocks(json, model.layers);
    writeStructure(json, decompose(model.layers), model.layers, batch);
    if (shards)
      writeShards(json, *shards, batch);
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

/// The operators without a cost formula, and how many have one.
void printCoverageSummary(const Graph &graph) {
  int nodes = 0, costed = 0;
  std::vector<std::string> others;
  for (const CoverageRow &row : coverage(graph)) {
    nodes += row.nodes;
    costed += row.costed ? row.nodes : 0;
    if (!row.costed)
      others.push_back(row.op);
  }
  outs() << "\ncoverage: " << costed << " of " << nodes << " operators have a cost formula";
  if (!others.empty())
    outs() << "; without one: " << join(others, ", ");
  outs() << '\n';
}

void printText(const Model &model, const Shards &shards, int64_t batch, bool verbose) {
  Repetitions repetitions = verbose ? Repetitions::Listed : Repetitions::Counted;
  printLayers(outs(), model.layers, countsOf(model), batch, repetitions);
  printTables(outs(), model.layers);
  printBlocks(outs(), model.layers);
  printStructure(outs(), decompose(model.layers), model.layers, batch);
  if (shards)
    printShards(outs(), model.layers, *shards, batch, repetitions);
  for (const std::string &note : model.layers.notes)
    outs() << "note: " << note << '\n';
  if (model.graph)
    (verbose ? printCoverage : printCoverageSummary)(*model.graph);
}

enum Format : size_t { formatText, formatJson, formatDot };

void show(const Model &model, const Shards &shards, size_t format, int64_t batch,
          const ImportCommand &command) {
  if (format == formatJson)
    outs() << toJson(shards ? shards->layers : model.layers);
  else if (format == formatDot)
    printLayersDot(outs(), model.layers);
  else if (command.json)
    printFacts(model, shards, batch);
  else
    printText(model, shards, batch, command.verbose);
}

/// The layers of a shard, if they are asked for.
Expected<Shards> shardsOf(const Model &model, const ImportCommand &command) {
  SequenceParallel sequence = SequenceParallel::Auto;
  if (Error error = readChoice("--sequence-parallel", command.sequenceParallel, sequence))
    return error;
  if (command.tensorParallel.empty())
    return std::nullopt;
  Expected<int64_t> degree =
      wholeOption("--tensor-parallel", command.tensorParallel, 2, 2, mostShards);
  if (!degree)
    return degree.takeError();
  if (Error error = checkOperators(model))
    return error;
  return shardLayers(*model.graph, model.layers, int(*degree), sequence);
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
  Expected<Shards> shards = shardsOf(*model, command);
  if (!shards)
    return shards.takeError();
  if (!command.output.empty())
    if (Error error =
            writeFile(command.output, toJson(*shards ? (*shards)->layers : model->layers)))
      return error;
  show(*model, *shards, *format, *batch, command);
  return exitDone;
}

} // namespace

void heterplan::addImport(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("import", "read a model; print its layers");
  auto options = std::make_shared<ImportCommand>();
  addArgument(*command, "MODEL", options->model, "a .onnx file (or .layers.json)");
  addReadingOptions(*command, options->reading);
  beginGroup(*command, "Output");
  addText(*command, "-o,--output", options->output, "FILE", "write the layers to this file");
  addText(*command, "--batch", options->batch, "N", "print the figures for N samples (1)");
  addText(*command, "--tensor-parallel", options->tensorParallel, "N",
          "also print what each of N devices would have that share every layer");
  addText(
      *command, "--sequence-parallel", options->sequenceParallel, "WHEN",
      "whether these also divide what lies between products along the sequence: never, or where "
      "that is faster (auto)");
  addText(*command, "--format", options->format, "FORMAT", "text, json (the layers file) or dot");
  command->add_flag("--verbose", options->verbose,
                    "print every layer of repeated blocks, and how each operator is costed");
  command->add_flag("--json", options->json, "print the table and its totals as JSON");
  command->callback([options, &action] { action = [options] { return import(*options); }; });
}
